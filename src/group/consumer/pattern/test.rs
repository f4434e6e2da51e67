use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, name: &str) -> bool {
    Pattern::parse(pattern).unwrap().matches(name) == Some(true)
}

#[test]
fn the_whole_name_has_to_match() {
    let cases = [
        ("orders", &["orders"][..], &["orders-1", "my-orders", ""][..]),
        ("orders.*", &["orders", "orders-1"], &["my-orders"]),
        ("^(a|bc)+$", &["a", "bc", "abca"], &["", "ab", "abcb"]),
        ("t-[0-9]{2,3}", &["t-12", "t-123"], &["t-1", "t-1234", "t-1a"]),
        ("(?i)Logs", &["logs", "LOGS"], &["log"]),
        (r"\w+\.v\d", &["topic.v1"], &["topic-v1", "topic.v"]),
        ("[^.]+", &["a-b"], &["a.b", ""]),
        (r"\bx\b.*", &["x", "x-y"], &["xy"]),
        (r"\pL*", &["abc"], &["a1"]),
        ("(a?){250}b", &["b", "aab"], &["c"]),
        ("", &[""], &["a"]),
    ];
    for (pattern, yes, no) in cases {
        yes.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
        no.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
    }
}

#[test]
fn what_re2_takes_is_read_as_re2_reads_it() {
    let cases = [
        ("{", &["{"][..], &["a"][..]),
        ("a{2", &["a{2"], &["aa"]),
        ("a{,2}", &["a{,2}"], &["a", "aa"]),
        ("a{01}", &["a{01}"], &["a"]),
        (r"\Qa.b\E+", &["a.b", "a.bb"], &["a.ba.b", "axb"]),
        (r"\Qa.b", &["a.b"], &["axb"]),
        (r"(\Q)\E)", &[")"], &[""]),
        (r"\101\x42\x{43}\_", &["ABC_"], &["abc_"]),
        (r"\08", &["\08"], &["8"]),
        ("[[a-z]&&[t]]1", &["a&&t]1", "[&&t]1"], &["t1"]),
        ("[[a]", &["[", "a"], &["[a"]),
        ("[]a]", &["]", "a"], &["b"]),
        ("[a&&b]", &["a", "b", "&"], &["c"]),
        ("[a-b-c]", &["a", "b", "-", "c"], &["d"]),
        (r"[\d-z]", &["7", "-", "z"], &["a"]),
        (r"[^\W_]", &["a", "7"], &["_", "."]),
        ("[[:alpha:]]", &["a"], &["1", ":"]),
        (r"\<t1\>", &["<t1>"], &["t1"]),
        (r"\w\d", &["a1"], &["é1", "a٣"]),
        (r"\p{Greek}\pL\P{^Lu}", &["ααA"], &["aaA", "ααa"]),
        (r"(?<a>t)(?P<b>1)", &["t1"], &["t"]),
        ("(?i-s)t", &["t", "T"], &["s"]),
        ("()t(?)1", &["t1"], &[""]),
        ("a{2}?b??", &["aa", "aab"], &["a"]),
        ("^*a$+", &["a"], &[""]),
        (r"\b{start}", &[], &["start", "{start}"]),
        ("(x{100}){2,}", &[], &["x"]),
        (r"a(?i)*\Q\E?", &["", "aa"], &["A"]),
        (r"\b?a\B?\z+", &["a"], &["b"]),
    ];
    for (pattern, yes, no) in cases {
        yes.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
        no.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
    }
    let deep = format!("{}t1{}", "(".repeat(999), ")".repeat(999));
    assert!(matches(&deep, "t1"));
    let long = (0..2000).map(|n| format!("topic-{n:06}|")).collect::<String>();
    assert!(matches(&format!("{long}t1"), "t1") && matches(&long, "topic-001999"));
}

#[test]
fn what_is_no_expression_is_refused() {
    let cases = [
        ("[", "missing closing ]"),
        ("[a-", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a|{2}", "missing argument to repetition operator"),
        ("(a", "missing closing )"),
        ("a)", "unexpected )"),
        (r"\1", "invalid escape sequence"),
        (r"\Z", "invalid escape sequence"),
        (r"x\E", "invalid escape sequence"),
        (r"[\b]", "invalid escape sequence"),
        (r"\x{110000}", "invalid escape sequence"),
        (r"a\", "trailing backslash at end of expression"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?x)a", "invalid or unsupported Perl syntax"),
        ("(?u)a", "invalid or unsupported Perl syntax"),
        ("(?R)a", "invalid or unsupported Perl syntax"),
        ("(?i-)a", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid named capture"),
        ("(?<n>a)(?P<n>b)", "duplicate capture group name"),
        ("a++", "invalid nested repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("a???", "invalid nested repetition operator"),
        ("{*", "invalid nested repetition operator"),
        ("a{9,1}", "invalid repeat count"),
        ("x{1001}", "invalid repeat count"),
        ("[z-a]", "invalid character class range"),
        ("[a--b]", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        (r"\p{Letter}", "invalid character class range"),
        (r"\pl", "invalid character class range"),
    ];
    for (pattern, why) in cases {
        assert_eq!(Pattern::parse(pattern).err().as_deref(), Some(why), "{pattern}");
    }
    let deep = format!("{}a{}", "(".repeat(2000), ")".repeat(2000));
    let high = format!("{}a{}", "(".repeat(300), "|b)+".repeat(300));
    let counts = "a{1000}|".repeat(100);
    for pattern in [deep.as_str(), &high, &counts, &"a".repeat(BYTES_MAX + 1)] {
        let why = Pattern::parse(pattern).unwrap_err();
        assert!(why.lines().count() == 1, "{why}");
    }
}

#[test]
fn no_expression_takes_long() {
    let name = "a".repeat(NAME_BYTES_MAX);
    assert!(!matches("((((a*)*)*)*)*b", &name));
    assert!(!matches("(a|a|aa)*b", &name));
    assert!(matches("((a{0,250}){0,250}){0,250}", &name[..100]));
    assert!(!matches("((a?){1000}){1000}b", &name));
    // As deep as they may be, on a stack as small as a task has.
    for (round, deep) in [("|b)+", 95), (")+", 190), ("|b){1,2}", 95), (r"|\b)*", 95), ("?){1000}", 60)] {
        let high = format!("{}a{}", "(".repeat(deep), round.repeat(deep));
        assert!(!matches(&format!("{high}c"), &name), "{round}");
    }
}

#[test]
fn what_takes_too_long_on_a_name_is_given_up_and_nothing_ordinary_does() {
    let name = "a".repeat(NAME_BYTES_MAX);
    let spent = |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().matches(name).is_none();
    let list: String = (0..8000).map(|n| format!("{n}a|")).collect();
    assert!(spent(&format!("({list}a)*c"), &name));
    assert!(spent(&format!("({list}a)+"), &name));
    assert!(!spent(&format!("({list}a)+"), "a1"), "others of its names can be told");
    let names: String = (0..4000).map(|n| format!("topic-{n:06}|")).collect();
    let letters = "a|".repeat(BYTES_MAX / 2);
    let ordinary = [
        ".*",
        ".*a.*b.*c.*",
        "(a|b)*",
        "([a-z0-9]+[._-])*[a-z0-9]+",
        r"(\w+\.?)+",
        r"[\p{L}\p{N}._-]+",
        "((((a*)*)*)*)*b",
        "(a|a|aa)*b",
        &names,
        &letters,
    ];
    for pattern in ordinary {
        assert!(!spent(pattern, &name) && !spent(pattern, &"a-".repeat(124)), "{pattern:.40}");
    }
}

proptest! {
    #[test]
    fn a_name_matches_itself_and_survives_any_expression(name in "[a-z0-9-]{0,20}", pattern in ".{0,20}") {
        prop_assert!(matches(&name, &name));
        let _ = Pattern::parse(&pattern).map(|pattern| pattern.matches(&name));
    }
}
