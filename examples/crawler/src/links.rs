//! The links of an HTML page: where `a` and `area` lead, and what `frame` and `iframe` show. Images, styles and scripts
//! are not followed: they are parts of a page, not pages.

use std::collections::BTreeSet;

use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};
use url::Url;

use crate::address::Address;

/// Every address that a page links to, once, in a fixed order; of http sites only. The page's own address is none of them:
/// what leads to a part of the same page is no link.
pub fn links(page: &Address, html: &[u8]) -> BTreeSet<Address> {
    let mut emitter = DefaultEmitter::<()>::default();
    // Scripts and styles are not markup.
    emitter.naively_switch_states(true);
    let mut base: Option<Url> = None;
    let mut references = Vec::new();
    for token in Tokenizer::new_with_emitter(html, emitter).flatten() {
        let Token::StartTag(tag) = token else { continue };
        match tag.name.as_slice() {
            b"a" | b"area" => references.extend(attribute(&tag, b"href")),
            b"frame" | b"iframe" => references.extend(attribute(&tag, b"src")),
            // The first one counts, for the references in front of it too.
            b"base" if base.is_none() => base = attribute(&tag, b"href").and_then(|href| page.url().join(&href).ok()),
            _ => {}
        }
    }
    let base = base.as_ref().unwrap_or(page.url());
    references.iter().filter_map(|reference| Address::follow(base, reference)).filter(|link| link != page).collect()
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value: &HtmlString = tag.attributes.get(name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(html: &str) -> Vec<String> {
        let page = Address::parse("http://h/dir/page.html").unwrap();
        links(&page, html.as_bytes()).iter().map(|link| link.to_string()).collect()
    }

    #[test]
    fn links_are_found_once_and_decoded() {
        let html = "<A HREF=b.html#x>b</A><a class=q href='b.html'>b</a><area href=\"c?x=1&amp;y=2\"><iframe src=/f></iframe>\
                    <a name=here>no</a><a href='#top'>same page</a><a href='page.html'>same page</a><img src=i.png>";
        assert_eq!(found(html), ["http://h/dir/b.html", "http://h/dir/c?x=1&y=2", "http://h/f"]);
    }

    #[test]
    fn what_only_looks_like_a_link_is_none() {
        let html =
            "<!-- <a href=x> --><script>'<a href=x>'</script><style><a href=x></style><textarea><a href=x></textarea>";
        assert_eq!(found(html), Vec::<String>::new());
    }

    #[test]
    fn the_base_moves_all_references() {
        assert_eq!(
            found("<a href=a><base href='/other/'><base href='/late/'><a href=b>"),
            ["http://h/other/a", "http://h/other/b"]
        );
    }

    #[test]
    fn broken_markup_is_read_as_far_as_it_goes() {
        assert_eq!(found("<a href=x><a href='never closed"), ["http://h/dir/x"]);
        assert_eq!(found("<<a href=x>\u{0}<a href=\"y\"z>"), ["http://h/dir/x", "http://h/dir/y"]);
    }
}
