//! The vectors of RFC 7677, and the same conversation with SHA-512, computed by Python's hashlib.

use bytes::Bytes;

use super::{
    ClientFirst, ScramClient, ScramServer,
    messages::{ClientFinalMessage, ClientFirstMessage, ServerFinalMessage, ServerFirstMessage},
};
use crate::sasl::{ClientStep, SaltedPassword, SaslError, ScramCredential, ScramMechanism};

const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const FINAL_WITHOUT_PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: [u8; 16] = [
    0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81,
];

const PROOF_256: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SIGNATURE_256: &str = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
const PROOF_512: &str = "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
const SIGNATURE_512: &str = "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";

const VECTORS: [(ScramMechanism, &str, &str); 2] = [
    (ScramMechanism::Sha256, PROOF_256, SIGNATURE_256),
    (ScramMechanism::Sha512, PROOF_512, SIGNATURE_512),
];

fn password(mechanism: ScramMechanism, text: &str) -> SaltedPassword {
    SaltedPassword::derive(mechanism, text.as_bytes(), &SALT, 4096)
}

/// A client that has received the broker's first message.
fn client_after(mechanism: ScramMechanism, server_first: &str) -> (ScramClient, Result<ClientStep, SaslError>) {
    let mut client = ScramClient::with_nonce(mechanism, "user", CLIENT_NONCE);
    let first = format!("n,,n=user,r={CLIENT_NONCE}");
    assert_eq!(client.start(), Ok(ClientStep::Send(first.into())));
    let step = client.handle_challenge(server_first.as_bytes());
    (client, step)
}

fn credential(mechanism: ScramMechanism) -> ScramCredential {
    ScramCredential::from_salted_password(&password(mechanism, "pencil"), Bytes::copy_from_slice(&SALT), 4096)
}

fn server(mechanism: ScramMechanism, first: &str, credential: Option<ScramCredential>) -> (ScramServer, Bytes) {
    let first = ClientFirst::parse(first.as_bytes()).unwrap();
    ScramServer::start(mechanism, first, credential, SERVER_NONCE, b"key")
}

#[test]
fn the_client_sends_the_messages_of_the_standard() {
    for (mechanism, proof, signature) in VECTORS {
        let (mut client, step) = client_after(mechanism, SERVER_FIRST);
        let salt = Bytes::copy_from_slice(&SALT);
        assert_eq!(step, Ok(ClientStep::DeriveSaltedPassword { salt, iterations: 4096 }));
        let step = client.handle_salted_password(&password(mechanism, "pencil"));
        let expected = format!("{FINAL_WITHOUT_PROOF},p={proof}");
        assert_eq!(step, Ok(ClientStep::Send(expected.into())), "{mechanism}");
        let done = client.handle_challenge(format!("v={signature}").as_bytes());
        assert_eq!(done, Ok(ClientStep::Done), "{mechanism}");
        assert!(client.handle_challenge(b"v=").is_err());
    }
}

#[test]
fn the_broker_sends_the_messages_of_the_standard() {
    for (mechanism, proof, signature) in VECTORS {
        let first = format!("n,,n=user,r={CLIENT_NONCE}");
        let (server, message) = server(mechanism, &first, Some(credential(mechanism)));
        assert_eq!(message, SERVER_FIRST);
        let (user, message) = server
            .finish(format!("{FINAL_WITHOUT_PROOF},p={proof}").as_bytes())
            .unwrap();
        assert_eq!(
            (user.as_str(), message),
            ("user", format!("v={signature}").into()),
            "{mechanism}"
        );
    }
}

#[test]
fn the_client_refuses_a_broker_that_does_not_know_the_password() {
    let (mut client, _) = client_after(ScramMechanism::Sha256, SERVER_FIRST);
    client
        .handle_salted_password(&password(ScramMechanism::Sha256, "pencil"))
        .unwrap();
    let other = format!("v={}", SIGNATURE_256.replace('6', "7"));
    assert_eq!(
        client.handle_challenge(other.as_bytes()),
        Err(SaslError::ServerSignature)
    );
}

#[test]
fn the_client_shows_the_error_of_the_broker() {
    let (mut client, _) = client_after(ScramMechanism::Sha256, SERVER_FIRST);
    client
        .handle_salted_password(&password(ScramMechanism::Sha256, "pencil"))
        .unwrap();
    let error = client.handle_challenge(b"e=other-error").unwrap_err();
    assert!(error.to_string().contains("other-error"), "{error}");
}

#[test]
fn the_client_bounds_the_work_that_a_broker_can_ask_for() {
    let with_iterations = |iterations: &str| SERVER_FIRST.replace("i=4096", &format!("i={iterations}"));
    let refusal = |iterations: &str| {
        let (_, step) = client_after(ScramMechanism::Sha512, &with_iterations(iterations));
        step.unwrap_err().to_string()
    };
    assert!(refusal("4095").contains("less than the minimum of 4096"));
    assert!(refusal("1000001").contains("more than the 1000000"));
    assert!(refusal("18446744073709551615").contains("more than the 1000000"));
    for invalid in ["", "0x1000", "-5000", "18446744073709551616"] {
        assert!(refusal(invalid).contains("number of iterations"), "{invalid}");
    }
    let (_, step) = client_after(ScramMechanism::Sha512, &with_iterations("1000000"));
    assert!(matches!(
        step,
        Ok(ClientStep::DeriveSaltedPassword {
            iterations: 1_000_000,
            ..
        })
    ));
}

#[test]
fn the_client_wants_its_nonce_and_one_of_the_broker() {
    for nonce in ["other", CLIENT_NONCE, "rOprNGfwEbeRWgbNEkq", ""] {
        let message = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let (_, step) = client_after(ScramMechanism::Sha256, &message);
        assert!(step.is_err(), "{nonce}");
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_fail_at_the_same_step() {
    let mechanism = ScramMechanism::Sha256;
    let first = format!("n,,n=user,r={CLIENT_NONCE}");
    for credential in [Some(credential(mechanism)), None] {
        let is_known = credential.is_some();
        let (server, message) = server(mechanism, &first, credential);
        let message = std::str::from_utf8(&message).unwrap().to_owned();
        assert!(message.ends_with(",i=4096"), "{message}");
        let (mut client, _) = client_after(mechanism, &message);
        let wrong = password(mechanism, if is_known { "pen" } else { "pencil" });
        let Ok(ClientStep::Send(proof)) = client.handle_salted_password(&wrong) else {
            panic!("no proof");
        };
        assert!(server.finish(&proof).is_err());
    }
}

#[test]
fn an_unknown_user_has_the_same_salt_each_time_and_others_have_another() {
    let message = |user: &str| {
        let first = format!("n,,n={user},r={CLIENT_NONCE}");
        server(ScramMechanism::Sha256, &first, None).1
    };
    assert_eq!(message("ghost"), message("ghost"));
    assert_ne!(message("ghost"), message("spirit"));
    let other_mechanism = server(ScramMechanism::Sha512, &format!("n,,n=ghost,r={CLIENT_NONCE}"), None).1;
    assert_ne!(message("ghost"), other_mechanism);
}

#[test]
fn a_credential_with_too_few_iterations_or_wrong_keys_lets_no_client_in() {
    let mechanism = ScramMechanism::Sha256;
    let weak = ScramCredential {
        iterations: 4095,
        ..credential(mechanism)
    };
    let short = ScramCredential {
        stored_key: Bytes::new(),
        ..credential(mechanism)
    };
    for credential in [weak, short, credential(ScramMechanism::Sha512)] {
        let (server, _) = server(mechanism, &format!("n,,n=user,r={CLIENT_NONCE}"), Some(credential));
        let message = format!("{FINAL_WITHOUT_PROOF},p={PROOF_256}");
        assert!(server.finish(message.as_bytes()).is_err());
    }
}

#[test]
fn the_broker_checks_nonce_channel_binding_and_proof() {
    let mechanism = ScramMechanism::Sha256;
    let finish = |message: String| {
        let first = format!("n,,n=user,r={CLIENT_NONCE}");
        let (server, _) = server(mechanism, &first, Some(credential(mechanism)));
        server.finish(message.as_bytes()).map(|(user, _)| user)
    };
    let good = format!("{FINAL_WITHOUT_PROOF},p={PROOF_256}");
    assert_eq!(finish(good.clone()).as_deref(), Ok("user"));
    for bad in [
        good.replace("biws", "eSws"),
        good.replace("lj)hNlF", "lj)hNlG"),
        good.replace("dHzb", "dHzc"),
        good.replace(PROOF_256, ""),
        good.replace(PROOF_256, "dHzb"),
        good.replace(",p=", ",q="),
        FINAL_WITHOUT_PROOF.to_owned(),
        String::new(),
    ] {
        assert!(finish(bad.clone()).is_err(), "{bad}");
    }
}

/// Kafka's broker renders the messages anew and so breaks the proof of a client that sends extensions at the end.
#[test]
fn signatures_cover_extensions_as_they_were_sent() {
    let mechanism = ScramMechanism::Sha256;
    let first = format!("n,a=user,n=user,r={CLIENT_NONCE},trace=on");
    let (server, server_first) = server(mechanism, &first, Some(credential(mechanism)));
    let server_first = std::str::from_utf8(&server_first).unwrap();
    let without_proof = format!("{FINAL_WITHOUT_PROOF},more=x").replace("biws", "bixhPXVzZXIs");
    let auth_message = format!("n=user,r={CLIENT_NONCE},trace=on,{server_first},{without_proof}");
    let proof = password(mechanism, "pencil").client_proof(auth_message.as_bytes());
    let proof = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, proof);
    let (user, _) = server.finish(format!("{without_proof},p={proof}").as_bytes()).unwrap();
    assert_eq!(user, "user");
}

#[test]
fn first_messages_follow_kafkas_grammar() {
    for (message, user, authorization_id, is_token_login) in [
        ("n,,n=user,r=abc", "user", "", false),
        ("n,,n=a=2Cb=3Dc,r=abc", "a,b=c", "", false),
        ("n,a=other,n=user,r=abc", "user", "other", false),
        ("n,,n=user,r=abc,tokenauth=true", "user", "", true),
        ("n,,n=user,r=abc,tokenauth=false,x=y=z", "user", "", false),
    ] {
        let parsed = ClientFirstMessage::parse(message).ok().unwrap();
        assert_eq!(
            (
                parsed.username.as_str(),
                parsed.authorization_id.as_str(),
                parsed.is_token_login
            ),
            (user, authorization_id, is_token_login),
            "{message}"
        );
        assert_eq!(format!("{}{}", parsed.gs2_header, parsed.bare), message);
    }
    for message in [
        "",
        "n,,",
        "n,,n=user",
        "n,,r=abc,n=user",
        "n,,n=,r=abc",
        "n,,n=user,r=",
        "n,,n=us=er,r=abc",
        "n,,n=zoë,r=abc",
        "n,x,n=user,r=abc",
        "n,,m=must,n=user,r=abc",
        "n,,n=user,r=a b",
        "n,,n=user,r=abc,1=2",
        "n,,n=user,r=abc,x",
        "n,,n=user,r=abc,",
        "y,,n=user,r=abc",
        "p=tls-unique,,n=user,r=abc",
    ] {
        assert!(ClientFirstMessage::parse(message).is_err(), "{message}");
    }
}

#[test]
fn other_messages_follow_the_grammar() {
    assert!(ServerFirstMessage::parse("r=abc,s=YQ==,i=4096,x=y").is_ok());
    for message in [
        "r=abc,s=YQ=,i=4096",
        "r=abc,s=YQ==",
        "r=abc,i=4096,s=YQ==",
        "m=x,r=abc,s=YQ==,i=1",
        "s=YQ==",
    ] {
        assert!(ServerFirstMessage::parse(message).is_err(), "{message}");
    }
    assert!(ClientFinalMessage::parse("c=biws,r=abc,x=y,p=YQ==").is_ok());
    for message in [
        "c=biws,r=abc,p=Y",
        "r=abc,c=biws,p=YQ==",
        "c=biws,p=YQ==",
        "c=biws,r=abc,m=x,p=YQ==",
    ] {
        assert!(ClientFinalMessage::parse(message).is_err(), "{message}");
    }
    assert!(matches!(
        ServerFinalMessage::parse("v=YQ==,x=y"),
        Ok(ServerFinalMessage::Signature(_))
    ));
    assert!(matches!(
        ServerFinalMessage::parse("e=no"),
        Ok(ServerFinalMessage::Error("no"))
    ));
    for message in ["", "v=Y", "x=y", "v=YQ==,m=x"] {
        assert!(ServerFinalMessage::parse(message).is_err(), "{message}");
    }
}

#[test]
fn names_that_kafkas_grammar_lacks_are_refused_at_once() {
    let new = |user| ScramClient::new(ScramMechanism::Sha256, user, crate::sasl::ScramLogin::User, [0; 18]).err();
    assert_eq!(new(""), Some(SaslError::NoUsername));
    assert!(matches!(new("zoë"), Some(SaslError::UsernameNotAscii { .. })));
    assert_eq!(new("a,b=c"), None);
}

#[test]
fn no_type_shows_a_key() {
    let password = password(ScramMechanism::Sha256, "pencil");
    let shown = format!("{password:?} {:?}", credential(ScramMechanism::Sha256));
    assert_eq!(
        shown,
        "SaltedPassword(SCRAM-SHA-256, [hidden]) ScramCredential { iterations: 4096, .. }"
    );
}
