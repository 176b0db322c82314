import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { QueueEncryption, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Stage } from './config.ts';

/** Imports the operator's KMS key into a scope. Returns `undefined` if the stage uses keys of AWS. */
export const operatorsKey = (scope: Construct, { keyArn }: Stage): IKey | undefined =>
  keyArn === undefined ? undefined : Key.fromKeyArn(scope, 'key', keyArn);

/**
 * Returns the statement that the policy of the operator's key needs: alarms, rules and budgets publish to the encrypted
 * topic and queue by themselves, without a role whose policy could allow it.
 */
export const keyStatement = (): PolicyStatement =>
  new PolicyStatement({
    sid: 'AgentPlatformMessages',
    principals: ['cloudwatch', 'events', 'budgets'].map((name) => new ServicePrincipal(`${name}.amazonaws.com`)),
    actions: ['kms:Decrypt', 'kms:GenerateDataKey*'],
    resources: ['*'],
  });

export function queueEncryptionOf(
  scope: Construct,
  stage: Stage,
): Pick<QueueProps, 'encryption' | 'encryptionMasterKey'> {
  const key = operatorsKey(scope, stage);
  return key
    ? { encryption: QueueEncryption.KMS, encryptionMasterKey: key }
    : { encryption: QueueEncryption.SQS_MANAGED };
}
