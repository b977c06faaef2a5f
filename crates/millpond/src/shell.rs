//! Words as they may be pasted into a shell: names of topics may hold whatever a shell makes something of.

/// A word in quotes, where it needs any.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_reads_is_the_word() {
        for word in ["plain/word", "", "two words", "it's", "$HOME `x` \"y\" \\ !", "größe*"] {
            let read = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output();
            assert_eq!(String::from_utf8(read.unwrap().stdout).unwrap(), word);
        }
        assert_eq!(quoted("plain/word"), "plain/word");
    }
}
