//! The cluster and its brokers.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    messages::{DescribeClusterRequest, DescribeClusterResponse, MetadataRequest, MetadataResponse},
};

use super::{
    Admin, AdminError,
    call::{AdminCall, CallContext},
    error::check,
    own,
    route::Route,
};
use crate::{
    consumer::Node,
    metadata::{Broker, MetadataCache, VERSION_MIN},
};

/// The endpoint type of brokers, in contrast to controllers.
const BROKERS: i8 = 1;
const ITEM: &str = "the cluster";

/// A cluster and its brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// `None` if the broker is too old to report it.
    pub cluster_id: Option<ByteString>,
    /// The controller, or the broker that forwards to it; `None` while there is none.
    pub controller: Option<Node>,
    /// Sorted by id.
    pub brokers: Vec<ClusterBroker>,
}

/// A broker of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterBroker {
    pub node: Node,
    /// Whether the broker is registered but does not serve requests.
    pub fenced: bool,
}

impl Admin {
    /// Returns the cluster's id, controller and brokers, including fenced ones.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            |batch| DescribeClusterRequest {
                endpoint_type: BROKERS,
                include_fenced_brokers: batch.version >= versions::describe_cluster::FENCED_BROKERS,
                ..Default::default()
            },
            |context: &CallContext<&str>, response: DescribeClusterResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                context.all(&described(&response))
            },
        );
        match self.call_one(call, ITEM).await {
            Err(AdminError::Unsupported { .. }) => self.describe_old_cluster().await,
            other => other,
        }
    }

    /// For brokers before Kafka 2.8, which lack DescribeCluster.
    async fn describe_old_cluster(&self) -> Result<ClusterDescription, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            |_| MetadataRequest {
                topics: Some(vec![]),
                allow_auto_topic_creation: false,
                ..Default::default()
            },
            |context: &CallContext<&str>, response: MetadataResponse| {
                let cluster = MetadataCache::of(&response, context.version);
                let brokers = cluster.brokers().map(|broker| ClusterBroker {
                    node: Node::from(broker),
                    fenced: false,
                });
                context.all(&ClusterDescription {
                    cluster_id: cluster.cluster_id().cloned(),
                    controller: cluster.controller().map(Node::from),
                    brokers: brokers.collect(),
                })
            },
        );
        self.call_one(call.version_min(VERSION_MIN), ITEM).await
    }
}

fn described(response: &DescribeClusterResponse) -> ClusterDescription {
    let brokers = response.brokers.iter().filter_map(|broker| {
        // A fenced broker may have no address.
        let known = Broker::new(broker.broker_id, &broker.host, broker.port, broker.rack.as_deref());
        let node = known.as_ref().map(Node::from).or_else(|| {
            broker.is_fenced.then(|| Node {
                id: broker.broker_id,
                host: own(&broker.host),
                port: 0,
                rack: broker.rack.as_ref().map(own),
            })
        });
        Some(ClusterBroker {
            node: node?,
            fenced: broker.is_fenced,
        })
    });
    let mut brokers: Vec<ClusterBroker> = brokers.collect();
    brokers.sort_unstable_by_key(|broker| broker.node.id);
    let controller = brokers.iter().find(|broker| broker.node.id == response.controller_id);
    ClusterDescription {
        cluster_id: Some(own(&response.cluster_id)).filter(|id| !id.is_empty()),
        controller: controller.map(|broker| broker.node.clone()),
        brokers,
    }
}
