import {
  DeleteObjectsCommand,
  GetBucketTaggingCommand,
  ListObjectVersionsCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { DeleteSecretCommand, paginateListSecrets, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';

export interface StageLeftovers {
  readonly bucket: string;
  /** Of the names of the vaults, without the slash. */
  readonly secretPrefix: string;
}

/** The bucket's tag that says whether all this may go; `lib/stacks/data-stack.ts` sets it. */
export const DISPOSABLE_TAG = 'platform:disposable';

/**
 * Deletes what a stage made at run time, and CloudFormation therefore would not: every version of every blob, and the
 * vaults, at once and for good. Does nothing when the bucket is not, or no longer, marked as disposable: a stage that
 * is told to keep its data from now on takes its cleaner out of the stack, which looks like the end to the cleaner.
 */
export async function emptyStage(
  { s3, secrets }: { s3: S3Client; secrets: SecretsManagerClient },
  { bucket, secretPrefix }: StageLeftovers,
): Promise<void> {
  if (!(await isDisposable(s3, bucket))) return;
  for (;;) {
    const { Versions = [], DeleteMarkers = [] } = await s3.send(new ListObjectVersionsCommand({ Bucket: bucket }));
    const Objects = [...Versions, ...DeleteMarkers].map(({ Key, VersionId }) => ({ Key, VersionId }));
    if (Objects.length === 0) break;
    const { Errors = [] } = await s3.send(
      new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }),
    );
    if (Errors.length > 0) throw new Error(`S3 kept ${Errors[0]!.Key}: ${Errors[0]!.Code}`);
  }
  const named = { Filters: [{ Key: 'name' as const, Values: [`${secretPrefix}/`] }] };
  for await (const { SecretList = [] } of paginateListSecrets({ client: secrets }, named)) {
    for (const { Name } of SecretList) {
      // The filter does not tell upper from lower case.
      if (!Name!.startsWith(`${secretPrefix}/`)) continue;
      await secrets.send(new DeleteSecretCommand({ SecretId: Name, ForceDeleteWithoutRecovery: true }));
    }
  }
}

async function isDisposable(s3: S3Client, bucket: string): Promise<boolean> {
  try {
    const { TagSet = [] } = await s3.send(new GetBucketTaggingCommand({ Bucket: bucket }));
    return TagSet.some(({ Key, Value }) => Key === DISPOSABLE_TAG && Value === 'true');
  } catch (error) {
    if (error instanceof Error && (error.name === 'NoSuchTagSet' || error.name === 'NoSuchBucket')) return false;
    throw error;
  }
}
