import { DynamoTable } from '#aws/dynamo-table.ts';
import { S3Blobs } from '#aws/s3-blobs.ts';
import { usageSuite } from '#test/conformance/usage.ts';
import { createBucket, createTables, dynamoDbClient, s3Client } from '#test/helpers/aws.ts';

usageSuite(async (clock) => {
  const client = dynamoDbClient();
  const names = await createTables(client);
  const s3 = s3Client();
  return {
    runs: new DynamoTable(client, names.runs, clock),
    counters: new DynamoTable(client, names.counters, clock),
    blobs: new S3Blobs(s3, await createBucket(s3)),
  };
});
