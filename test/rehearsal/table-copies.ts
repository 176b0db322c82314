import {
  type AttributeValue,
  BatchWriteItemCommand,
  CreateTableCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  type DynamoDBClient,
  paginateScan,
} from '@aws-sdk/client-dynamodb';

type StoredItem = Record<string, AttributeValue>;

/** Returns the items of a table in the order of their keys. */
export async function itemsOf(client: DynamoDBClient, TableName: string): Promise<StoredItem[]> {
  const items: StoredItem[] = [];
  for await (const page of paginateScan({ client }, { TableName, ConsistentRead: true })) {
    items.push(...(page.Items ?? []));
  }
  const keyOf = ({ pk, sk }: StoredItem) => `${pk!.S} ${sk!.S}`;
  return items.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

/**
 * Replaces a table as the runbook does: deletes it, and creates one of the same schema with the items of the earlier
 * moment. DynamoDB Local has no point-in-time recovery, so the test copied the items at that moment.
 */
export async function restoreTable(client: DynamoDBClient, TableName: string, items: StoredItem[]): Promise<void> {
  const { Table } = await client.send(new DescribeTableCommand({ TableName }));
  await client.send(new DeleteTableCommand({ TableName }));
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      KeySchema: Table!.KeySchema,
      AttributeDefinitions: Table!.AttributeDefinitions,
      StreamSpecification: Table!.StreamSpecification,
      GlobalSecondaryIndexes: Table!.GlobalSecondaryIndexes?.map(({ IndexName, KeySchema, Projection }) => ({
        IndexName,
        KeySchema,
        Projection,
      })),
    }),
  );
  for (let at = 0; at < items.length; at += 25) {
    const requests = items.slice(at, at + 25).map((Item) => ({ PutRequest: { Item } }));
    await client.send(new BatchWriteItemCommand({ RequestItems: { [TableName]: requests } }));
  }
}
