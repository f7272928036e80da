//! Kafka's own cases, and facts from Java.

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;

use super::*;

fn parse(rules: &str) -> PrincipalMapper {
    PrincipalMapper::parse(rules).unwrap_or_else(|error| panic!("{rules}: {error}"))
}

#[test]
fn subjects_are_those_of_java() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/names.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.split_terminator('\n').collect();
    assert!(lines.len() > 10);
    for line in lines {
        let (expected, certificate) = line.rsplit_once('\t').unwrap();
        let certificate = BASE64_STANDARD.decode(certificate).unwrap();
        assert_eq!(subject(&certificate).unwrap(), expected);
        assert_eq!(parse("DEFAULT").name(&certificate).unwrap(), expected);
    }
}

#[test]
fn valid_rules_are_accepted() {
    for rules in [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ] {
        parse(rules);
    }
}

#[test]
fn invalid_rules_are_errors() {
    for rules in [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
    ] {
        assert!(PrincipalMapper::parse(rules).is_err(), "{rules}");
    }
}

#[test]
fn the_first_matching_rule_wins() {
    let mapper = parse(
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, \
         RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT",
    );
    for (name, expected) in [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (
            "OU=JavaSoft,O=Sun Microsystems,C=US",
            "OU=JavaSoft,O=Sun Microsystems,C=US",
        ),
    ] {
        assert_eq!(mapper.map(name).unwrap(), expected);
    }
}

#[test]
fn escaped_commas_are_part_of_a_name() {
    let mapper = parse(r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT");
    assert_eq!(
        mapper.map(r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz").unwrap(),
        r"Tkac\, Adam"
    );
}

/// Number of rules in a list, by Kafka's own cases of splitting.
#[test]
fn lists_are_split_as_in_kafka() {
    for (rules, count) in [
        ("", 0),
        ("DEFAULT", 1),
        ("RULE://", 1),
        ("RULE:/.*/", 1),
        ("RULE:/.*/L", 1),
        ("RULE://,DEFAULT", 2),
        ("  RULE:// ,  DEFAULT  ", 2),
        ("  RULE:   /     / ,  DEFAULT  ", 2),
        ("  RULE:  /     /U   ,DEFAULT  ", 2),
        ("  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ", 3),
        (",   , , ,      , , ,   ", 0),
        (",,RULE://,,,DEFAULT,,", 2),
        (",  , RULE: /   /    ,,,   DEFAULT, ,   ", 2),
        ("     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,", 2),
        (r"RULE:\/\\\(\)\n\t/\/\//", 1),
        (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", 2),
        (
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT",
            5,
        ),
    ] {
        assert_eq!(parse(rules).rules.len(), count, "{rules}");
    }
}

#[test]
fn no_rule_is_an_error() {
    let error = parse("RULE:^CN=(a.*)$/$1/").map("CN=bob").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no rule of ssl.principal.mapping.rules applies to CN=bob"
    );
    assert!(parse("").map("CN=bob").is_err());
}

/// Results of Java's `replaceAll`, which replaces parts of the name after the pattern has matched all of it.
#[test]
fn replacements_are_those_of_java() {
    for (rules, name, expected) in [
        ("RULE:.*/x/", "CN=a", "xx"),
        ("RULE:(.*)/$1/", "CN=a", "CN=a"),
        ("RULE:CN=(.*?)/user:/", "CN=a", "user:a"),
        ("RULE:^CN=(.)(.*)$/$2$1/", "CN=abc", "bca"),
        ("RULE:^CN=(.*)$/$4-$1/", "CN=abc", "$4-abc"),
        ("RULE:^CN=(.*)$/$12/", "CN=abc", "abc2"),
        ("RULE:^CN=(.*)$/$0/", "CN=abc", "CN=abc"),
        (r"RULE:^CN=(.*)$/\$1\/$1/", "CN=abc", "$1/abc"),
        ("RULE:^CN=(?<user>.*)$/${user}/", "CN=abc", "abc"),
        (r"RULE:^CN=(\w+)$/$1/U", "CN=žx", "-"),
        (r"RULE:^CN=(\Qa.b\E)$/$1/", "CN=a.b", "a.b"),
        (r"RULE:^CN=(\Qa.b\E)$/$1/", "CN=axb", "-"),
        (r"RULE:^CN=\<([\d\-]+)\>$/$1/", "CN=<1-2>", "1-2"),
    ] {
        let mapped = parse(rules).map(name).unwrap_or_else(|_| "-".to_owned());
        assert_eq!(mapped, expected, "{rules}");
    }
}

#[test]
fn patterns_that_would_mean_something_else_are_refused() {
    for rules in [
        "RULE:^CN=(?=a).*$/x/",
        r"RULE:^CN=(.)\1$/$1/",
        "RULE:^CN=.*+$/x/",
        "RULE:^CN=(?>a)$/x/",
        "RULE:^CN=[a--z]$/x/",
        "RULE:^CN=.*$/$1/",
        "RULE:^CN=(.*)$/$x/",
        "RULE:^CN=(/$1/",
    ] {
        let error = PrincipalMapper::parse(rules).unwrap_err().to_string();
        assert!(error.contains("ssl.principal.mapping.rules"), "{rules}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(rules in r"(RULE:|DEFAULT|[\\/$,{}\[\]()*+?LU]|[a-z0-9^=.]{0,3}){0,12}", name in ".{0,40}") {
        if let Ok(mapper) = PrincipalMapper::parse(&rules) {
            let _ = mapper.map(&name);
        }
    }

    #[test]
    fn no_certificate_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = subject(&bytes);
        let _ = subject(&[&[0x30, 0x81, 200, 0x30, 0x81, 190][..], &bytes].concat());
    }
}
