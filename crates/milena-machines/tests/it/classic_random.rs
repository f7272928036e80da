//! Random clients, each history from its seed.
//!
//! [`World`] checks after each event that no request gets two replies and that the log has all durable state.

use std::collections::BTreeMap;

use milena_machines::{Random, Ticket, group::GroupReply};
use milena_wire::{
    errors::ErrorCode,
    messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest},
};

use crate::{
    offsets_commit::{as_member, commit_error},
    world::{World, assigned_to, assignment, code, join, protocol, subscription, sync},
};

struct Client {
    instance_id: Option<String>,
    member_id: String,
    generation_id: i32,
    /// The members that it has to assign to, if it leads.
    to_assign: Vec<String>,
    must_join: bool,
    asked: Option<Ticket>,
}

struct History {
    world: World,
    random: Random,
    clients: Vec<Client>,
    /// The members of a generation, by the number of restarts before it.
    generations: BTreeMap<(u32, i32), (String, Option<String>)>,
    restarts: u32,
}

impl History {
    fn new(seed: u64) -> Self {
        let client = |instance_id: Option<&str>| Client {
            instance_id: instance_id.map(Into::into),
            member_id: String::new(),
            generation_id: -1,
            to_assign: vec![],
            must_join: true,
            asked: None,
        };
        Self {
            world: World::new(),
            random: Random::new(seed),
            clients: [None, None, None, Some("i"), Some("j")].map(client).into(),
            generations: BTreeMap::new(),
            restarts: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => {
                self.restarts += 1;
                self.world.restart();
                self.clients.iter_mut().for_each(|client| client.asked = None);
            }
            1..=4 => {
                let duration_ms = self.random.below(8_000) as i32;
                self.world.pass(duration_ms);
            }
            5..=9 => self.world.settle(),
            _ => {
                let place = self.random.below(self.clients.len() as u64) as usize;
                self.act(place);
            }
        }
    }

    fn act(&mut self, place: usize) {
        if let Some(ticket) = self.clients[place].asked {
            if !self.world.is_waiting(ticket) {
                self.hear(place, ticket);
            } else if self.random.below(10) == 0 {
                // The connection broke.
                self.clients[place].asked = None;
            }
            return;
        }
        let client = &self.clients[place];
        let (member_id, generation_id) = (client.member_id.clone(), client.generation_id);
        let instance_id = client.instance_id.clone();
        match self.random.below(10) {
            0 => {
                self.world.leave(5, "g", &[(&member_id, instance_id.as_deref())]);
                self.clients[place].must_join = true;
                self.clients[place].member_id.clear();
            }
            1 => {
                let mut request = as_member(&member_id, generation_id);
                request.group_instance_id = instance_id.map(Into::into);
                commit_error(&mut self.world, 8, request);
            }
            2..=4 => {
                let error = self
                    .world
                    .heartbeat_as("g", &member_id, instance_id.as_deref(), generation_id);
                self.heed(place, error);
            }
            _ if client.must_join => self.ask_to_join(place),
            _ => self.ask_for_assignment(place),
        }
    }

    fn ask_to_join(&mut self, place: usize) {
        let topics: &[&str] = match self.random.below(3) {
            0 => &["orders", "payments"],
            _ => &["orders"],
        };
        let client = &mut self.clients[place];
        client.asked = Some(self.world.join(JoinGroupRequest {
            group_instance_id: client.instance_id.as_deref().map(Into::into),
            protocols: vec![protocol("range", subscription(topics))],
            ..join("g", &client.member_id)
        }));
    }

    fn ask_for_assignment(&mut self, place: usize) {
        let client = &mut self.clients[place];
        client.asked = Some(self.world.sync(SyncGroupRequest {
            group_instance_id: client.instance_id.as_deref().map(Into::into),
            assignments: client.to_assign.iter().map(|member| assignment(member)).collect(),
            ..sync("g", &client.member_id, client.generation_id)
        }));
    }

    fn hear(&mut self, place: usize, ticket: Ticket) {
        self.clients[place].asked = None;
        match self.world.reply(ticket) {
            GroupReply::Join(response) => self.hear_join(place, response),
            GroupReply::Sync(response) => {
                let error = code(response.error_code);
                if error == ErrorCode::None && self.clients[place].instance_id.is_none() {
                    let expected = assigned_to(&self.clients[place].member_id);
                    assert_eq!(response.assignment, expected);
                }
                self.heed(place, error);
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn hear_join(&mut self, place: usize, response: JoinGroupResponse) {
        let error = code(response.error_code);
        if error != ErrorCode::None && error != ErrorCode::MemberIdRequired {
            return self.heed(place, error);
        }
        let client = &mut self.clients[place];
        client.member_id = response.member_id.to_string();
        if error == ErrorCode::MemberIdRequired {
            return;
        }
        let told = (
            response.leader.to_string(),
            response.protocol_name.map(|name| name.to_string()),
        );
        let known = self
            .generations
            .entry((self.restarts, response.generation_id))
            .or_insert_with(|| told.clone());
        // A static leader that rejoins gives the generation a new leader id.
        if client.instance_id.is_none() && !known.0.starts_with("i-") && !known.0.starts_with("j-") {
            assert_eq!(*known, told, "generation {}", response.generation_id);
        }
        client.generation_id = response.generation_id;
        client.to_assign = response
            .members
            .iter()
            .map(|member| member.member_id.to_string())
            .collect();
        client.must_join = false;
    }

    fn heed(&mut self, place: usize, error: ErrorCode) {
        let client = &mut self.clients[place];
        match error {
            ErrorCode::None => {}
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => client.must_join = true,
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                client.must_join = true;
                client.member_id.clear();
            }
            other => panic!("nobody deserves {other}"),
        }
    }
}

#[test]
fn all_requests_get_a_reply_and_the_group_becomes_empty() {
    let mut generations = 0;
    for seed in 0..20 {
        let mut history = History::new(seed);
        for _ in 0..400 {
            history.step();
        }
        generations += history.generations.len();
        history.world.pass(500_000);
        assert_eq!(history.world.state("g"), "Empty", "seed {seed}");
        for client in &history.clients {
            if let Some(ticket) = client.asked {
                assert!(!history.world.is_waiting(ticket), "seed {seed}");
            }
        }
    }
    assert!(generations > 100, "the histories should be eventful: {generations}");
}
