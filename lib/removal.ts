import { RemovalPolicy } from 'aws-cdk-lib';
import type { Stage } from './config.ts';

/**
 * What becomes of data and logs when their stack is deleted. A deployment that fails deletes what it created itself: a
 * retained resource with a name of its own would make every further try fail with "already exists" (CloudFormation's
 * deletion policy `RetainExceptOnCreate`).
 */
export const removalPolicyOf = ({ keepsData }: Stage): RemovalPolicy =>
  keepsData ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
