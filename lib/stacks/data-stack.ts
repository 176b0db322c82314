import { Duration, Fn, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import { AttributeType, Billing, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { TABLE_NAMES, TABLE_SCHEMA, type TableName } from '#core/ports/table-rules.ts';
import { bucketNameOf, type Stage, tablePrefixOf } from '../config.ts';

const RECOVERY_DAYS = 35;
/** How long a blob that was deleted or replaced can still be brought back. */
const UNDELETE = Duration.days(30);

/** What the platform remembers: three tables and a bucket. */
export class DataStack extends Stack {
  readonly #stage: Stage;

  constructor(scope: Construct, id: string, props: StackProps & { readonly stage: Stage }) {
    super(scope, id, props);
    this.#stage = props.stage;
    for (const name of TABLE_NAMES) this.#addTable(name);
    this.#addBlobs();
  }

  get #removalPolicy(): RemovalPolicy {
    return this.#stage.keepsData ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY;
  }

  /** Runs and counters expire by themselves: only what is in `main` cannot be had again. */
  #addTable(name: TableName): void {
    const { keepsData } = this.#stage;
    const isPrecious = name === 'main';
    const { partitionKey, sortKey, ttl, indexes } = TABLE_SCHEMA;
    const key = (attribute: string) => ({ name: attribute, type: AttributeType.STRING });
    new TableV2(this, name, {
      tableName: tablePrefixOf(this.#stage) + name,
      partitionKey: key(partitionKey),
      sortKey: key(sortKey),
      globalSecondaryIndexes: Object.entries(indexes).map(([indexName, keys]) => ({
        indexName,
        partitionKey: key(keys.partitionKey),
        sortKey: key(keys.sortKey),
      })),
      timeToLiveAttribute: ttl,
      billing: Billing.onDemand(),
      pointInTimeRecoverySpecification: isPrecious
        ? { pointInTimeRecoveryEnabled: true, recoveryPeriodInDays: RECOVERY_DAYS }
        : undefined,
      deletionProtection: keepsData && isPrecious,
      removalPolicy: this.#removalPolicy,
    });
  }

  #addBlobs(): void {
    const house = {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      removalPolicy: this.#removalPolicy,
    };
    const accessLog = new Bucket(this, 'blobs-access-log', {
      ...house,
      lifecycleRules: [{ expiration: Duration.days(this.#stage.logRetentionDays) }],
    });
    new Bucket(this, 'blobs', {
      ...house,
      bucketName: Fn.sub(bucketNameOf(this.#stage)),
      versioned: true,
      serverAccessLogsBucket: accessLog,
      lifecycleRules: [
        { abortIncompleteMultipartUploadAfter: Duration.days(1) },
        // Longer than an upload can be used: an hour.
        {
          prefix: 'uploads/',
          expiration: Duration.days(1),
          noncurrentVersionExpiration: Duration.days(1),
        },
        // What runs took and gave goes with their records, and does not linger as an old version.
        {
          prefix: 'runs/',
          expiration: Duration.days(this.#stage.runRetentionDays),
          noncurrentVersionExpiration: Duration.days(1),
        },
        ...['bundles/', 'definitions/', 'layers/'].map((prefix) => ({ prefix, noncurrentVersionExpiration: UNDELETE })),
      ],
    });
  }
}
