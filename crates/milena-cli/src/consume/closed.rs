//! The end of the reader of our output.

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;

/// Returns when the standard output is a pipe whose reader is gone, as in `milena consume letters | head -1`. Without it,
/// only the next record would bring that to light.
pub(super) async fn stdout_closed() {
    let (sender, receiver) = oneshot::channel();
    // A blocking poll needs a thread of its own; it ends with the process.
    let watch = move || {
        let stdout = std::io::stdout();
        // No event is asked for: errors and hang-ups are reported always.
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut watched, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        let _ = sender.send(());
    };
    let watching = std::thread::Builder::new().name("stdout".to_owned()).spawn(watch);
    if watching.is_err() || receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}
