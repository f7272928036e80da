import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessage.Voter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/** Batches that hold a control record: the ends of transactions, and what the metadata log writes about itself. */
final class ControlBatches {
    private static final long OFFSET = 123;
    private static final long TIME = SampleRecords.TIME;
    private static final int EPOCH = BatchWriter.LEADER_EPOCH;

    static void addTo(Map<String, byte[]> cases) {
        cases.put("v2-control-commit", endOfTransaction(ControlRecordType.COMMIT));
        cases.put("v2-control-abort", endOfTransaction(ControlRecordType.ABORT));
        cases.put("v2-control-leader-change", bytes(
                MemoryRecords.withLeaderChangeMessage(OFFSET, TIME, EPOCH, buffer(), leaderChange())));
        cases.put("v2-control-snapshot-header", bytes(
                MemoryRecords.withSnapshotHeaderRecord(OFFSET, TIME, EPOCH, buffer(),
                        new SnapshotHeaderRecord().setLastContainedLogTimestamp(TIME - 1))));
        cases.put("v2-control-snapshot-footer", bytes(
                MemoryRecords.withSnapshotFooterRecord(OFFSET, TIME, EPOCH, buffer(), new SnapshotFooterRecord())));
        cases.put("v2-control-kraft-version", bytes(
                MemoryRecords.withKRaftVersionRecord(OFFSET, TIME, EPOCH, buffer(),
                        new KRaftVersionRecord().setKRaftVersion((short) 1))));
        cases.put("v2-control-voters", bytes(
                MemoryRecords.withVotersRecord(OFFSET, TIME, EPOCH, buffer(), voters())));
    }

    static byte[] endOfTransaction(ControlRecordType type) {
        return bytes(MemoryRecords.withEndTransactionMarker(OFFSET, TIME, EPOCH, 4_000_000_001L, (short) 3,
                new EndTransactionMarker(type, 19)));
    }

    private static LeaderChangeMessage leaderChange() {
        return new LeaderChangeMessage().setLeaderId(2)
                .setVoters(List.of(new Voter().setVoterId(1), new Voter().setVoterId(2)))
                .setGrantingVoters(List.of(new Voter().setVoterId(2)));
    }

    private static VotersRecord voters() {
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("localhost").setPort(9093));
        VotersRecord.Voter voter = new VotersRecord.Voter().setVoterId(1).setVoterDirectoryId(new Uuid(11, 12))
                .setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature().setMinSupportedVersion((short) 0)
                        .setMaxSupportedVersion((short) 1));
        return new VotersRecord().setVoters(List.of(voter));
    }

    private static ByteBuffer buffer() {
        return ByteBuffer.allocate(1024);
    }

    private static byte[] bytes(MemoryRecords records) {
        return BatchWriter.bytes(records.buffer());
    }
}
