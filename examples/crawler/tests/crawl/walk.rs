//! The oracle: what there is to find, by a plain walk over the files, one after the other, without HTTP, without an HTML
//! parser and without a library for URLs. Slow and simple on purpose: it shares no code with the crawler.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;

use crate::world::{Trouble, World};

/// What becomes of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Page,
    Redirect,
    Missing,
    Barred,
    Dead,
}

/// What a crawl has to find.
pub struct Expected {
    pub ends: BTreeMap<String, End>,
    /// Links on all pages, each once a page, and one for each redirect.
    pub links: u64,
}

/// Walks from the front page of every site.
pub fn walk(world: &World) -> Expected {
    let seeds = world.sites.iter().map(|site| format!("{}/", site.origin));
    let mut ends = BTreeMap::new();
    let mut links = 0;
    let mut ahead: VecDeque<String> = seeds.collect();
    while let Some(address) = ahead.pop_front() {
        if ends.contains_key(&address) {
            continue;
        }
        let (end, found) = visit(world, &address);
        links += found.len() as u64;
        ends.insert(address, end);
        ahead.extend(found);
    }
    Expected { ends, links }
}

fn visit(world: &World, address: &str) -> (End, BTreeSet<String>) {
    let (origin, rest) = split(address);
    let site = world.sites.iter().find(|site| site.origin == origin).expect("only such links are followed");
    let path = rest.split('?').next().unwrap();
    if world.is_barred(path) {
        return (End::Barred, BTreeSet::new());
    }
    let folder = &world.packages[site.package].folder;
    let home = world.home(site.package, path);
    if home.origin != origin {
        return (End::Redirect, BTreeSet::from([format!("{}{path}", home.origin)]));
    }
    if matches!(world.trouble(path), Some(Trouble::Broken | Trouble::Silent)) {
        return (End::Dead, BTreeSet::new());
    }
    let mut file = folder.join(path[1..].replace("%20", " "));
    if file.is_dir() && !path.ends_with('/') {
        return (End::Redirect, BTreeSet::from([format!("{address}/")]));
    }
    if path.ends_with('/') {
        file.push("index.html");
    }
    if !file.is_file() || path.ends_with(".gz") {
        return (End::Missing, BTreeSet::new());
    }
    if file.extension().is_none_or(|kind| kind != "html") {
        return (End::Page, BTreeSet::new());
    }
    let html = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
    let of_the_world = |link: &String| world.sites.iter().any(|site| site.origin == split(link).0);
    let links = references(&html).into_iter().filter_map(|reference| resolve(address, &reference));
    (End::Page, links.filter(|link| link != address).filter(of_the_world).collect())
}

/// `http://host` and the rest of an address.
fn split(address: &str) -> (&str, &str) {
    let host = "http://".len();
    address.split_at(address[host..].find('/').map_or(address.len(), |slash| host + slash))
}

/// The absolute address of a reference on a page, or nothing if it is not one of http.
fn resolve(page: &str, reference: &str) -> Option<String> {
    let reference = reference.trim().split('#').next().unwrap();
    let (origin, rest) = split(page);
    let path = rest.split('?').next().unwrap();
    let scheme = reference.split(['/', '?']).next().unwrap().contains(':');
    let whole = if reference.is_empty() {
        return Some(page.to_owned());
    } else if scheme {
        reference.starts_with("http://").then(|| reference.to_owned())?
    } else if reference.starts_with("//") {
        format!("http:{reference}")
    } else if reference.starts_with('/') {
        format!("{origin}{reference}")
    } else if reference.starts_with('?') {
        format!("{origin}{path}{reference}")
    } else {
        format!("{origin}{}{reference}", &path[..=path.rfind('/').unwrap()])
    };
    let (origin, rest) = split(&whole);
    let (path, query) = rest.split_once('?').map_or((rest, ""), |(path, query)| (path, query));
    let mut parts: Vec<&str> = Vec::new();
    for (at, part) in path.split('/').skip(1).enumerate() {
        let is_last = at + 2 == path.split('/').count();
        match part {
            "." | ".." => {
                if part == ".." {
                    parts.pop();
                }
                if is_last {
                    parts.push("");
                }
            }
            part => parts.push(part),
        }
    }
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    Some(format!("{origin}/{}{query}", parts.join("/")).replace(' ', "%20"))
}

/// The values of `href` of `a` and `area` and of `src` of `frame` and `iframe`.
fn references(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        rest = &rest[open..];
        if rest.starts_with("<!--") {
            rest = after(rest, "-->");
            continue;
        }
        let end = end_of_tag(rest);
        let (tag, behind) = rest.split_at(end);
        rest = behind;
        let name: String = tag[1..].chars().take_while(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        match name.as_str() {
            "a" | "area" => found.extend(attribute(tag, "href")),
            "frame" | "iframe" => found.extend(attribute(tag, "src")),
            "script" | "style" | "textarea" | "title" => rest = after(rest, &format!("</{name}")),
            _ => {}
        }
    }
    found
}

fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    text.find(mark).map_or("", |at| &text[at + mark.len()..])
}

/// Where the tag at the front ends; a `>` inside quotes is not its end.
fn end_of_tag(text: &str) -> usize {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return at + 1,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    text.len()
}

/// The value of an attribute, which the documentation always puts in quotes.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = [" ", "\n", "\t"].iter().find_map(|space| {
        let mark = format!("{space}{name}=");
        tag.find(&mark).map(|at| at + mark.len())
    })?;
    let quote = tag[start..].chars().next()?;
    assert!(quote == '"' || quote == '\'', "an attribute without quotes: {tag}");
    let value = &tag[start + 1..];
    let value = &value[..value.find(quote)?];
    Some(decoded(value))
}

/// The text that is written with character references.
fn decoded(value: &str) -> String {
    let (mut text, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        let (name, behind) = rest[at + 1..].split_once(';').unwrap_or_else(|| panic!("a bare & in {value}"));
        let digits = name.strip_prefix('#').and_then(|digits| digits.parse().ok());
        text.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            _ => digits.and_then(char::from_u32).unwrap_or_else(|| panic!("what is &{name}; in {value}?")),
        });
        rest = behind;
    }
    text + rest
}
