import { S3Blobs } from '#aws/blobs/s3-blobs.ts';
import { agentListingSuite } from '#test/conformance/agent-listing.ts';
import { createBucket, newFedTables, s3Client } from '#test/helpers/aws.ts';

agentListingSuite(async (clock) => {
  const s3 = s3Client();
  return { ...(await newFedTables(clock)), blobs: new S3Blobs(s3, await createBucket(s3)) };
});
