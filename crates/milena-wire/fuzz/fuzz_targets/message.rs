//! Every message in every version: decoded messages can be encoded, and decode to the same again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use milena_wire::message::Message;

fuzz_target!(|data: &[u8]| {
    let [which, version, body @ ..] = data else { return };
    let read = READERS[usize::from(*which) % READERS.len()];
    read(&Bytes::copy_from_slice(body), i16::from(*version));
});

macro_rules! readers {
    ($($name:ident),* $(,)?) => {
        const READERS: &[fn(&Bytes, i16)] = &[$(reread::<milena_wire::messages::$name>),*];
    };
}

milena_wire::for_each_message!(readers);

fn reread<M: Message + PartialEq + std::fmt::Debug>(bytes: &Bytes, version: i16) {
    let version = M::VERSIONS.min + version % (M::VERSIONS.max - M::VERSIONS.min + 1);
    let Ok(message) = M::decode(bytes, version) else { return };
    let written = message.encode(version).expect("what was read can be written");
    // Not the same bytes: varints and tags have more than one form. But the same message, unless it holds a NaN.
    let again = M::decode(&written, version).expect("what was written can be read");
    assert!(again == message || format!("{message:?}").contains("NaN"));
}
