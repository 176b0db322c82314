import { type AttributeValue, type DynamoDBClient, paginateScan } from '@aws-sdk/client-dynamodb';
import type { Clock } from '#core/ports/clock.ts';
import type { OwnItems, Scan } from '#core/ports/scan.ts';
import type { Item } from '#core/ports/table.ts';
import { isExpired, type TableName } from '#core/ports/table-rules.ts';
import { itemOf } from './dynamo-table.ts';

/** Parts of a table that are read at the same time. A part yields about 10 MB a second. */
const SEGMENTS = 16;

/** {@link Scan} of DynamoDB tables. Reads consistently, in 16 parts that take turns. */
export class DynamoScan implements Scan {
  readonly #client: DynamoDBClient;
  readonly #prefix: string;
  readonly #clock: Clock;

  /** @param prefix Prefix of the names of the tables. */
  constructor(client: DynamoDBClient, prefix: string, clock: Clock) {
    this.#client = client;
    this.#prefix = prefix;
    this.#clock = clock;
  }

  async *items(table: TableName, { partitions, workspaceId }: OwnItems): AsyncGenerator<Item> {
    const begins = partitions.map((_, i) => `begins_with(pk, :p${i})`);
    const values = Object.fromEntries(partitions.map((each, i) => [`:p${i}`, { S: each }] as const));
    const pages = Array.from({ length: SEGMENTS }, (_, Segment) =>
      paginateScan(
        { client: this.#client },
        {
          TableName: `${this.#prefix}${table}`,
          ConsistentRead: true,
          Segment,
          TotalSegments: SEGMENTS,
          FilterExpression: [...begins, 'workspace_id = :w'].join(' OR '),
          ExpressionAttributeValues: { ...values, ':w': { S: workspaceId } } as Record<string, AttributeValue>,
        },
      )[Symbol.asyncIterator](),
    );
    // Each part reads its next page while the others are handled.
    const next = new Map(pages.map((each) => [each, each.next()]));
    while (next.size > 0) {
      for (const [part, page] of next) {
        const { value, done } = await page;
        if (done) {
          next.delete(part);
          continue;
        }
        next.set(part, part.next());
        for (const attributes of value.Items ?? []) {
          const item = itemOf(attributes);
          if (!isExpired(item, this.#clock)) yield item;
        }
      }
    }
  }
}
