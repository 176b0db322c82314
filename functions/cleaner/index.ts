import { S3Client } from '@aws-sdk/client-s3';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { emptyStage } from '#aws/empty-stage.ts';
import { host } from '../host.ts';

const clients = { s3: new S3Client(), secrets: new SecretsManagerClient() };

/** A custom resource of CloudFormation: when it is deleted, so is what its stage holds. Answers in any case, or the stack would wait for an hour. */
export async function handler(event: CloudFormationCustomResourceEvent): Promise<void> {
  let failure: string | undefined;
  try {
    const { bucket, secretPrefix } = host.config;
    if (event.RequestType === 'Delete') await emptyStage(clients, { bucket, secretPrefix });
  } catch (error) {
    failure = String(error);
    host.log.error('the stage was not emptied', { error: failure });
  }
  const { StackId, RequestId, LogicalResourceId } = event;
  await fetch(event.ResponseURL, {
    method: 'PUT',
    body: JSON.stringify({
      Status: failure === undefined ? 'SUCCESS' : 'FAILED',
      Reason: failure,
      PhysicalResourceId: 'cleaner',
      StackId,
      RequestId,
      LogicalResourceId,
    }),
  });
}
