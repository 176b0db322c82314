import { join } from 'node:path';
import { CustomResource, Duration, Fn, RemovalPolicy, Stack, type StackProps, Tags, Validations } from 'aws-cdk-lib';
import { AttributeType, Billing, ProjectionType, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { PROJECTIONS, TABLE_NAMES, TABLE_SCHEMA, type TableName } from '#core/ports/table-rules.ts';
import { bucketNameOf, type Stage, tablePrefixOf } from '../config.ts';
import { HouseFunction } from '../constructs/house-function.ts';

/** As `aws/empty-stage.ts` reads it. */
const DISPOSABLE_TAG = 'platform:disposable';
const RECOVERY_DAYS = 35;
/** How long a blob that was deleted or replaced can still be brought back. */
const UNDELETE = Duration.days(30);

export interface DataStackProps extends StackProps {
  readonly stage: Stage;
  /** Folder that holds a bundle a function, made by scripts/build-functions.ts. */
  readonly bundles: string;
}

/**
 * What the platform remembers: three tables and a bucket. A stage that keeps its data keeps all of it when the stack is
 * deleted; of any other nothing stays that costs, not even what was made at run time.
 */
export class DataStack extends Stack {
  readonly #stage: Stage;

  constructor(scope: Construct, id: string, props: DataStackProps) {
    super(scope, id, props);
    this.#stage = props.stage;
    for (const name of TABLE_NAMES) this.#addTable(name);
    const blobs = this.#addBlobs();
    if (!props.stage.keepsData) this.#addCleaner(blobs, props);
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
        projectionType: ProjectionType[PROJECTIONS[name]],
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

  #addBlobs(): Bucket {
    const house = {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      removalPolicy: this.#removalPolicy,
    };
    // Its lines come for hours after the last request, so that it could not be deleted with the stack.
    const accessLog =
      this.#stage.keepsData &&
      new Bucket(this, 'blobs-access-log', {
        ...house,
        lifecycleRules: [{ expiration: Duration.days(this.#stage.logRetentionDays) }],
      });
    const blobs = new Bucket(this, 'blobs', {
      ...house,
      bucketName: Fn.sub(bucketNameOf(this.#stage)),
      versioned: true,
      ...(accessLog && { serverAccessLogsBucket: accessLog }),
      lifecycleRules: [
        { abortIncompleteMultipartUploadAfter: Duration.days(1) },
        // Longer than an upload can be used: an hour; or what is on its way into a sandbox: a quarter of an hour.
        ...['uploads/', 'transfers/'].map((prefix) => ({
          prefix,
          expiration: Duration.days(1),
          noncurrentVersionExpiration: Duration.days(1),
        })),
        // What runs took and gave goes with their records, and does not linger as an old version.
        {
          prefix: 'runs/',
          expiration: Duration.days(this.#stage.runRetentionDays),
          noncurrentVersionExpiration: Duration.days(1),
        },
        ...['bundles/', 'definitions/', 'layers/'].map((prefix) => ({ prefix, noncurrentVersionExpiration: UNDELETE })),
      ],
    });
    if (!accessLog) {
      const reason = 'A stage to try things in: who read a blob is not kept, and no bucket stays behind.';
      Validations.of(blobs).acknowledge({ id: 'AwsSolutions-S1', reason });
    }
    return blobs;
  }

  /** CloudFormation deletes no bucket that holds something, and no secret that it did not make. */
  #addCleaner(blobs: Bucket, { stage, bundles }: DataStackProps): void {
    Tags.of(blobs).add(DISPOSABLE_TAG, 'true');
    const cleaner = new HouseFunction(this, 'cleaner', {
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
