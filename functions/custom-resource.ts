import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { host } from './host.ts';

/**
 * Handler of a CloudFormation custom resource that works when it is deleted. It always answers: without an answer the stack
 * waits for an hour.
 */
export const onDelete =
  (work: () => Promise<void>) =>
  async (event: CloudFormationCustomResourceEvent): Promise<void> => {
    let failure: string | undefined;
    try {
      if (event.RequestType === 'Delete') await work();
    } catch (error) {
      failure = String(error);
      host.log.error('not cleaned up', { error: failure });
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
  };
