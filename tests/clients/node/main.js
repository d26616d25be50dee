// The admin calls of kafkajs: node main.js SERVERS.
const { Kafka, logLevel, ResourceTypes, ConfigResourceTypes } = require("kafkajs");
const { AclResourceTypes, AclOperationTypes, AclPermissionTypes, ResourcePatternTypes } = require("kafkajs");

const topic = "by-kafkajs";
const kafka = new Kafka({ brokers: process.argv[2].split(","), logLevel: logLevel.NOTHING, retry: { retries: 2 } });
const admin = kafka.admin();

const create = (name, replicationFactor = 1) => async () => {
  const made = await admin.createTopics({ topics: [{ topic: name, numPartitions: 3, replicationFactor }] });
  return made ? "done" : "not made";
};
const partitions = async () => {
  const found = await admin.fetchTopicMetadata({ topics: [topic] });
  return `${found.topics[0].partitions.length} partitions`;
};
const alter = (name, value, of = topic) => async () => {
  const entry = { type: ConfigResourceTypes.TOPIC, name: of, configEntries: [{ name, value }] };
  await admin.alterConfigs({ validateOnly: false, resources: [entry] });
};
const retention = async () => {
  const wanted = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: ["retention.ms"] };
  const found = await admin.describeConfigs({ includeSynonyms: false, resources: [wanted] });
  return found.resources[0].configEntries[0]?.configValue ?? "none";
};
const grow = (count) => () => admin.createPartitions({ topicPartitions: [{ topic, count }] }).then(() => undefined);
const remove = (name) => () => admin.deleteTopics({ topics: [name], timeout: 5000 });
const rule = {
  resourceType: AclResourceTypes.TOPIC,
  resourceName: topic,
  resourcePatternType: ResourcePatternTypes.LITERAL,
  principal: "User:a",
  host: "*",
  operation: AclOperationTypes.READ,
  permissionType: AclPermissionTypes.ALLOW,
};
const acls = async () => (await admin.describeAcls(rule)).resources.length;

// A broker answers reads by what it has applied, which is behind what a controller has answered: a read is repeated
// until it says what it has to, or for fifteen seconds, and then its last outcome counts.
const steps = [
  ["brokers of the cluster", async () => (await admin.describeCluster()).brokers.length],
  ["create a topic", create(topic)],
  ["create it again", create(topic)],
  ["create with too many replicas", create("too-many", 9)],
  ["create with a bad name", create("a/b")],
  ["describe the topic", partitions, "3 partitions"],
  ["set a config", alter("retention.ms", "60000")],
  ["set an unknown config", alter("nonsense", "1")],
  ["set a bad value", alter("retention.ms", "soon")],
  ["set a config of no topic", alter("retention.ms", "1", "nothing")],
  ["describe the config", retention, "60000"],
  ["add a partition", grow(4)],
  ["describe the topic", partitions, "4 partitions"],
  ["take partitions away", grow(2)],
  ["create an ACL", () => admin.createAcls({ acl: [rule] }).then(() => undefined)],
  ["describe ACLs", acls, "1"],
  ["delete ACLs", async () => (await admin.deleteAcls({ filters: [rule] })).filterResponses[0].matchingAcls.length],
  ["describe ACLs", acls, "0"],
  ["delete the topic", remove(topic)],
  ["delete no topic", remove("nothing")],
];

const outcome = async (call) => {
  try {
    return String((await call()) ?? "done");
  } catch (error) {
    return (error.errors?.[0] ?? error.cause ?? error).type ?? error.message;
  }
};

const main = async () => {
  await admin.connect();
  for (const [name, call, until] of steps) {
    const ends = Date.now() + 15_000;
    let said = await outcome(call);
    while (until !== undefined && said !== until && Date.now() < ends) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      said = await outcome(call);
    }
    console.log(`${name}: ${said}`);
  }
  await admin.disconnect();
};

main();
