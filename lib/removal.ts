import { RemovalPolicy } from 'aws-cdk-lib';
import type { Stage } from './config.ts';

/**
 * Returns the removal policy of data and logs. A failed deployment deletes what it created itself: a retained resource
 * with a physical name would make every further attempt fail with "already exists" (CloudFormation's deletion policy
 * `RetainExceptOnCreate`).
 */
export const removalPolicyOf = ({ keepsData }: Stage): RemovalPolicy =>
  keepsData ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
