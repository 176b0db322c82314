import { join } from 'node:path';
import { CfnOutput, CustomResource, Duration, Fn, Stack, type StackProps, Tags, Validations } from 'aws-cdk-lib';
import {
  AttributeType,
  Billing,
  type CfnGlobalTable,
  ProjectionType,
  StreamViewType,
  TableV2,
} from 'aws-cdk-lib/aws-dynamodb';
import { Alias, type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption, HttpMethods } from 'aws-cdk-lib/aws-s3';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { blobLifetimes } from '#core/ports/blob-lifetimes.ts';
import { PROJECTIONS, TABLE_NAMES, TABLE_SCHEMA, type TableName } from '#core/ports/table-rules.ts';
import { bucketNameOf, dataKeyAliasOf, platformNameOf, type Stage, sumNamesOf, tablePrefixOf } from '../config.ts';
import { accessLogsOf } from '../constructs/access-logs.ts';
import { PlatformFunction } from '../constructs/platform-function.ts';
import { operatorsKey } from '../encryption.ts';
import { removalPolicyOf } from '../removal.ts';

/** Tag that `aws/release/empty-stage.ts` reads. */
const DISPOSABLE_TAG = 'platform:disposable';
/** DynamoDB's maximum. Point-in-time recovery is billed by the table's size only. */
const RECOVERY_DAYS = 35;
/** Time in which a deleted or replaced blob can be restored. */
const UNDELETE = Duration.days(30);
/** Shorter for documents: each write of a large one leaves an old version, and no limit counts them. */
const UNDELETE_DOCUMENTS = Duration.days(7);
/** Time in which a deleted KMS key can be restored: KMS's minimum. */
const UNDELETE_KEY = Duration.days(7);
/** Time for counting ended runs by hand: SQS's maximum. */
const DEAD_RETENTION = Duration.days(14);

export interface DataStackProps extends StackProps {
  readonly stage: Stage;
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
}

/**
 * The data: three tables, the stream of one, a bucket, and a KMS key if the stage names none. When the stack is deleted, a stage with `keepsData` keeps everything; any other
 * stage loses everything, including the secrets created at run time.
 */
export class DataStack extends Stack {
  readonly tables: Readonly<Record<TableName, TableV2>>;
  readonly blobs: Bucket;
  /** Key that seals data keys. */
  readonly dataKey: IKey;
  readonly #stage: Stage;
  /** The operator's key. */
  readonly #key: IKey | undefined;

  constructor(scope: Construct, id: string, props: DataStackProps) {
    super(scope, id, props);
    this.#stage = props.stage;
    this.#key = operatorsKey(this, props.stage);
    const tables = TABLE_NAMES.map((name) => [name, this.#addTable(name)] as const);
    this.tables = Object.fromEntries(tables) as Record<TableName, TableV2>;
    this.#addSums(this.tables.runs);
    this.blobs = this.#addBlobs();
    this.dataKey = this.#key ?? this.#addDataKeysKey();
    // `main` comes last: a failed deployment deletes what it created, and cannot delete protected resources.
    const { main } = this.tables;
    main.node.addDependency(...this.node.children.filter((child) => child !== main));
    if (!props.stage.keepsData) this.#addCleaner(this.blobs, props);
  }

  /**
   * All tables can be restored to the same second, which is equivalent to a crash of the whole platform. Without the
   * roll-ups in `runs` usage would differ from the ledger, and without the leases in `counters` open runs would never
   * be finished.
   */
  #addTable(name: TableName): TableV2 {
    const { keepsData, tables } = this.#stage;
    const { partitionKey, sortKey, ttl, indexes } = TABLE_SCHEMA;
    const key = (attribute: string) => ({ name: attribute, type: AttributeType.STRING });
    const ceilings = {
      ...(tables.maxReadUnits !== undefined && { maxReadRequestUnits: tables.maxReadUnits }),
      ...(tables.maxWriteUnits !== undefined && { maxWriteRequestUnits: tables.maxWriteUnits }),
    };
    const table = new TableV2(this, name, {
      tableName: tablePrefixOf(this.#stage) + name,
      partitionKey: key(partitionKey),
      sortKey: key(sortKey),
      globalSecondaryIndexes: Object.entries(indexes).map(([indexName, keys]) => ({
        indexName,
        partitionKey: key(keys.partitionKey),
        sortKey: key(keys.sortKey),
        projectionType: ProjectionType[PROJECTIONS[name]],
        ...ceilings,
      })),
      timeToLiveAttribute: ttl,
      billing: Billing.onDemand(ceilings),
      ...(name === 'runs' && { dynamoStream: StreamViewType.NEW_AND_OLD_IMAGES }),
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true, recoveryPeriodInDays: RECOVERY_DAYS },
      deletionProtection: keepsData && name === 'main',
      removalPolicy: removalPolicyOf(this.#stage),
    });
    if (this.#key) {
      // The CDK's own method needs the Region, which the app does not know.
      const resource = table.node.defaultChild as CfnGlobalTable;
      resource.addPropertyOverride('SSESpecification', { SSEEnabled: true, SSEType: 'KMS' });
      resource.addPropertyOverride('Replicas.0.SSESpecification.KMSMasterKeyId', this.#key.keyArn);
    }
    return table;
  }

  /** The stream of ended runs for the function `usage-writer`, and the queue for those that it cannot count. */
  #addSums(runs: TableV2): void {
    const { deadQueue, streamExport } = sumNamesOf(this.#stage);
    new CfnOutput(this, 'RunsStream', { value: runs.tableStreamArn!, exportName: streamExport });
    const dead = new Queue(this, 'sums-dead', {
      queueName: deadQueue,
      ...(this.#key
        ? { encryption: QueueEncryption.KMS, encryptionMasterKey: this.#key }
        : { encryption: QueueEncryption.SQS_MANAGED }),
      enforceSSL: true,
      retentionPeriod: DEAD_RETENTION,
    });
    Validations.of(dead).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason: 'It is a dead-letter queue itself, of a trigger that another stack has.',
    });
  }

  #addBlobs(): Bucket {
    const defaults = {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      removalPolicy: removalPolicyOf(this.#stage),
    };
    // Access logs arrive hours after the last request, so their bucket could not be deleted with the stack.
    const accessLog =
      this.#stage.keepsData &&
      this.#stage.accessLogs === undefined &&
      new Bucket(this, 'blobs-access-log', {
        ...defaults,
        lifecycleRules: [{ expiration: Duration.days(this.#stage.logRetentionDays) }],
      });
    const blobs = new Bucket(this, 'blobs', {
      ...defaults,
      bucketName: Fn.sub(bucketNameOf(this.#stage)),
      versioned: true,
      // Bucket keys reduce KMS requests: one serves many objects.
      ...(this.#key && { encryption: BucketEncryption.KMS, encryptionKey: this.#key, bucketKeyEnabled: true }),
      ...(accessLog && { serverAccessLogsBucket: accessLog }),
      ...accessLogsOf(this, this.#stage, 'data'),
      // The dashboard uploads large files. A signed form is required, also for a page of another site.
      ...(this.#stage.web.kind !== 'off' && { cors: [{ allowedMethods: [HttpMethods.POST], allowedOrigins: ['*'] }] }),
      lifecycleRules: [
        { abortIncompleteMultipartUploadAfter: Duration.days(1) },
        ...blobLifetimes(this.#stage.runRetentionDays).map(({ prefix, days }) => ({
          prefix,
          expiration: Duration.days(days),
          noncurrentVersionExpiration: Duration.days(1),
        })),
        ...['bundles/', 'definitions/', 'layers/'].map((prefix) => ({ prefix, noncurrentVersionExpiration: UNDELETE })),
        { prefix: 'storage/', noncurrentVersionExpiration: UNDELETE_DOCUMENTS },
        // What callers erase is to be gone.
        { prefix: 'sessions/', noncurrentVersionExpiration: Duration.days(1) },
      ],
    });
    if (!accessLog && !this.#stage.accessLogs) {
      const reason = 'A stage for trials has no access log, so that no bucket stays behind.';
      Validations.of(blobs).acknowledge({ id: 'AwsSolutions-S1', reason });
    }
    return blobs;
  }

  /**
   * Seals data keys. Keys that AWS manages do not serve: they seal only for their own service. Functions use this one by
   * its alias, because stacks export no values to each other.
   */
  #addDataKeysKey(): Key {
    const removalPolicy = removalPolicyOf(this.#stage);
    const key = new Key(this, 'data-keys-key', {
      description: `Seals data keys of the workspaces of ${platformNameOf(this.#stage)}.`,
      enableKeyRotation: true,
      pendingWindow: UNDELETE_KEY,
      removalPolicy,
    });
    const aliasName = dataKeyAliasOf(this.#stage);
    new Alias(this, 'data-keys-alias', { aliasName, targetKey: key, removalPolicy });
    return key;
  }

  /** CloudFormation deletes neither a bucket with objects, nor secrets that it did not create. */
  #addCleaner(blobs: Bucket, { stage, bundles }: DataStackProps): void {
    Tags.of(blobs).add(DISPOSABLE_TAG, 'true');
    const cleaner = new PlatformFunction(this, 'cleaner', {
      stage,
      bundle: join(bundles, 'cleaner'),
      memoryMb: 512,
      timeoutSeconds: 900,
      environment: {},
    });
    cleaner.emptyBlobs();
    cleaner.deleteSecrets();
    const resource = new CustomResource(this, 'clean', {
      resourceType: 'Custom::EmptyStage',
      serviceToken: cleaner.lambda.functionArn,
      serviceTimeout: Duration.minutes(15),
    });
    resource.node.addDependency(cleaner, blobs);
  }
}
