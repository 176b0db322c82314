import {
  DeleteObjectsCommand,
  GetBucketTaggingCommand,
  ListObjectVersionsCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { DeleteSecretCommand, paginateListSecrets, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';

export interface StageLeftovers {
  readonly bucket: string;
  /** Prefix of the vaults' names, without the slash. */
  readonly secretPrefix: string;
}

/** Bucket tag that marks all data as disposable; `lib/stacks/data-stack.ts` sets it. */
export const DISPOSABLE_TAG = 'platform:disposable';

/**
 * Deletes what a stage created at run time, and CloudFormation therefore would not: every version of every blob, and
 * the vaults, immediately and permanently. No-op if the bucket is not, or no longer, marked as disposable: when a stage
 * is changed to keep its data, its cleaner is removed from the stack, which looks to the cleaner like the end of the
 * stage.
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
      // The filter is case-insensitive.
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
