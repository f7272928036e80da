//! Connections that are opened and kept, some of them with a part of a frame.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
};

use crate::random::Random;

/// Connections from one address: an address has 28,000 ports for one peer.
const PER_ADDRESS: usize = 5_000;

/// Opens connections until there are enough, or the system allows no more.
pub async fn open(peer: SocketAddr, count: usize, random: &mut Random) -> Vec<TcpStream> {
    let mut crowd = vec![];
    for number in 0..count {
        let address = Ipv4Addr::new(127, 0, 1, 1 + u8::try_from(number / PER_ADDRESS).unwrap_or(200));
        let mut stream = match tokio::time::timeout(Duration::from_secs(10), connect(peer, address)).await {
            Ok(Ok(stream)) => stream,
            failed => {
                eprintln!("connection {number} cannot be opened: {failed:?}");
                break;
            }
        };
        // An idle one, a part of the length, a part of a frame, or one that promises as much as the broker takes.
        let part: &[u8] = match random.number(0..4) {
            0 => &[],
            1 => &[0, 0],
            2 => &[0, 0, 1, 0, 0, 18, 0, 0],
            _ => &[6, 0x3f, 0xff, 0xff, 0, 0, 0, 3],
        };
        let _ = stream.write_all(part).await;
        crowd.push(stream);
    }
    crowd
}

async fn connect(peer: SocketAddr, from: Ipv4Addr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    socket.connect(peer).await
}
