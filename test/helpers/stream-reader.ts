import type { DynamoDBRecord } from 'aws-lambda';
import { TEST_REGION } from './aws-account.ts';

interface Shard {
  readonly ShardId: string;
  readonly ParentShardId?: string;
}

interface Stream {
  readonly arn: string;
  readonly shards: readonly string[];
  readonly foundAt: number;
}

/** A table that is restored has another stream. */
const KNOWN_MS = 1000;

export interface ShardRecords {
  readonly shardId: string;
  readonly records: readonly DynamoDBRecord[];
}

/** Reads the stream of a table as Lambda's poller does: each record at least once, in the order of its shard, parents first. */
export class StreamReader {
  readonly #endpoint: string;
  readonly #tableName: string;
  readonly #accessKey: string;
  /** Shard -> where to continue; null for one that has ended. */
  readonly #iterators = new Map<string, string | null>();
  /** The newest stream with its shards, parents first. */
  #known: Stream | undefined;

  constructor(endpoint: string, tableName: string, accessKey: string) {
    this.#endpoint = endpoint;
    this.#tableName = tableName;
    this.#accessKey = accessKey;
  }

  /** Returns all records since the last call. */
  async read(): Promise<ShardRecords[]> {
    const { arn, shards } = await this.#find();
    const found: ShardRecords[] = [];
    for (const shardId of shards) {
      const records = await this.#recordsOf(arn, shardId);
      if (records.length > 0) found.push({ shardId, records });
    }
    return found;
  }

  async #find(): Promise<Stream> {
    const isCurrent = ({ shards, foundAt }: Stream): boolean =>
      Date.now() - foundAt < KNOWN_MS && shards.every((shard) => typeof this.#iterators.get(shard) === 'string');
    if (this.#known !== undefined && isCurrent(this.#known)) return this.#known;
    const foundAt = Date.now();
    const arn = await this.#findStream();
    const shards = await this.#shards(arn);
    this.#known = { arn, shards: shards.filter((shard) => this.#iterators.get(shard) !== null), foundAt };
    return this.#known;
  }

  async #findStream(): Promise<string> {
    const { Streams } = await this.#ask('ListStreams', { TableName: this.#tableName });
    // Names of streams end with the time of their creation.
    const arns: string[] = Streams.map(({ StreamArn }: { readonly StreamArn: string }) => StreamArn);
    return arns.sort().at(-1)!;
  }

  async #shards(StreamArn: string): Promise<string[]> {
    const shards: Shard[] = [];
    let ExclusiveStartShardId: string | undefined;
    do {
      const { StreamDescription } = await this.#ask('DescribeStream', { StreamArn, ExclusiveStartShardId });
      shards.push(...StreamDescription.Shards);
      ExclusiveStartShardId = StreamDescription.LastEvaluatedShardId;
    } while (ExclusiveStartShardId);
    const byId = new Map(shards.map((shard) => [shard.ShardId, shard]));
    const depth = ({ ParentShardId }: Shard): number => {
      const parent = ParentShardId === undefined ? undefined : byId.get(ParentShardId);
      return parent === undefined ? 0 : 1 + depth(parent);
    };
    return shards.sort((a, b) => depth(a) - depth(b)).map(({ ShardId }) => ShardId);
  }

  async #recordsOf(StreamArn: string, ShardId: string): Promise<DynamoDBRecord[]> {
    const known = this.#iterators.get(ShardId);
    if (known === null) return [];
    const found = known === undefined ? undefined : await this.#follow(StreamArn, ShardId, known);
    if (found !== undefined) return found;
    const position = { StreamArn, ShardId, ShardIteratorType: 'TRIM_HORIZON' };
    const { ShardIterator } = await this.#ask('GetShardIterator', position);
    return (await this.#follow(StreamArn, ShardId, ShardIterator)) ?? [];
  }

  /** Returns the records from an iterator on; `undefined` if its place is gone, as DynamoDB Local has it after a while. */
  async #follow(StreamArn: string, ShardId: string, from: string): Promise<DynamoDBRecord[] | undefined> {
    const records: DynamoDBRecord[] = [];
    for (let iterator: string | null = from; iterator !== null; ) {
      let page: { readonly Records: readonly DynamoDBRecord[]; readonly NextShardIterator?: string };
      try {
        // Iterators are opaque: the rehearsal checks rights by the name of the stream.
        page = await this.#ask('GetRecords', { ShardIterator: iterator, StreamArn });
      } catch (error) {
        if (!/TrimmedDataAccess|ExpiredIterator/.test(String(error))) throw error;
        this.#iterators.delete(ShardId);
        return records.length > 0 ? records : undefined;
      }
      records.push(...page.Records);
      iterator = page.NextShardIterator ?? null;
      this.#iterators.set(ShardId, iterator);
      if (page.Records.length === 0) break;
    }
    return records;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the answer of any action.
  async #ask(action: string, input: object): Promise<any> {
    // The SDK's client of streams is a package of its own. The emulator checks no signature.
    const credential = `${this.#accessKey}/20350101/${TEST_REGION}/dynamodb/aws4_request`;
    const response = await fetch(this.#endpoint, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-amz-json-1.0',
        'x-amz-target': `DynamoDBStreams_20120810.${action}`,
        authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=host, Signature=none`,
      },
      body: JSON.stringify(input),
    });
    if (!response.ok) throw new Error(`${action}: ${await response.text()}`);
    return response.json();
  }
}
