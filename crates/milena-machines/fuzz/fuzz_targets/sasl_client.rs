//! Challenges of a broker that is not one: any bytes as messages of every mechanism.
//!
//! No message panics, makes the client derive a password with too many iterations, or completes a SCRAM log-in.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use milena_machines::sasl::{
    CLIENT_ITERATIONS_MAX, ClientExchange, ClientStep, Mechanism, NONCE_BYTES, SaltedPassword, ScramLogin,
    ScramMechanism,
};

fuzz_target!(|data: &[u8]| {
    let Some((kind, mut rest)) = data.split_first() else {
        return;
    };
    let scram = |mechanism| ClientExchange::scram(mechanism, "user", ScramLogin::User, [1; NONCE_BYTES]);
    let exchange = match kind % 4 {
        0 => ClientExchange::plain("user", "password"),
        1 => scram(ScramMechanism::Sha256),
        2 => scram(ScramMechanism::Sha512),
        _ => ClientExchange::oauth_bearer("token", "", &BTreeMap::new()),
    };
    let mut exchange = exchange.expect("the credentials are valid");
    let mut step = exchange.start().expect("the first message");
    loop {
        step = match step {
            ClientStep::Send(_) => {
                let Some((length, more)) = rest.split_first() else {
                    return;
                };
                let (challenge, after) = more.split_at(usize::from(*length).min(more.len()));
                rest = after;
                match exchange.handle_challenge(challenge) {
                    Ok(step) => step,
                    Err(_) => return,
                }
            }
            ClientStep::DeriveSaltedPassword { iterations, .. } => {
                assert!(iterations <= CLIENT_ITERATIONS_MAX);
                let Mechanism::Scram(mechanism) = exchange.mechanism() else {
                    panic!("only SCRAM derives passwords");
                };
                let salted = vec![2; mechanism.hash_bytes()];
                let password = SaltedPassword::from_bytes(mechanism, &salted).expect("it has the length of the hash");
                match exchange.handle_salted_password(&password) {
                    Ok(step) => step,
                    Err(_) => return,
                }
            }
            ClientStep::Done => {
                // The signature of a server that knows the password cannot be guessed.
                assert!(
                    !matches!(exchange.mechanism(), Mechanism::Scram(_)),
                    "a stranger was trusted"
                );
                return;
            }
        };
    }
});
