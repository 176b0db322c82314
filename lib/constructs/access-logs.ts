import { Validations } from 'aws-cdk-lib';
import { Bucket, type BucketProps } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { platformNameOf, type Stage } from '../config.ts';

/** Returns the properties that send the access log of a bucket to the operator's own. */
export function accessLogsOf(
  scope: Construct,
  stage: Stage,
  name: string,
): Pick<BucketProps, 'serverAccessLogsBucket' | 'serverAccessLogsPrefix'> {
  if (stage.accessLogs === undefined) return {};
  const { bucketName, prefix = '' } = stage.accessLogs;
  Validations.of(scope).acknowledge({
    id: 'Annotation::@aws-cdk/aws-s3:accessLogsPolicyNotAdded',
    reason: "The operator's bucket has its own policy, which must allow the logs.",
  });
  return {
    serverAccessLogsBucket: Bucket.fromBucketName(scope, 'access-logs', bucketName),
    serverAccessLogsPrefix: `${prefix}${platformNameOf(stage)}/${name}/`,
  };
}
