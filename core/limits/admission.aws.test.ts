import { DynamoTable } from '#aws/dynamo-table.ts';
import { admissionSuite } from '#test/conformance/admission.ts';
import { createTables, dynamoDbClient } from '#test/helpers/aws.ts';

admissionSuite(async (clock) => {
  const client = dynamoDbClient();
  return new DynamoTable(client, (await createTables(client)).counters, clock);
});
