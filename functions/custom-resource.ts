import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { host } from './host.ts';

type Event<Type extends CloudFormationCustomResourceEvent['RequestType']> = Extract<
  CloudFormationCustomResourceEvent,
  { RequestType: Type }
>;

/** What was made. CloudFormation deletes what had another id before, once nothing refers to that. */
export interface Made {
  /** What `Ref` of the resource is. */
  readonly id: string;
}

/** What a custom resource does, by what happens to it. An error fails the stack's operation, with its message. */
export interface CustomResourceWork {
  /** @default - nothing */
  readonly onCreate?: (event: Event<'Create'>) => Promise<Made> | Promise<void>;
  /** @default - nothing */
  readonly onUpdate?: (event: Event<'Update'>) => Promise<Made> | Promise<void>;
  /** @default - nothing */
  readonly onDelete?: (event: Event<'Delete'>) => Promise<void>;
}

/** Handler of a CloudFormation custom resource. It always answers: without an answer the stack waits for an hour. */
export const customResource =
  ({ onCreate, onUpdate, onDelete }: CustomResourceWork) =>
  async (event: CloudFormationCustomResourceEvent): Promise<void> => {
    let failure: string | undefined;
    let made: Made | undefined;
    try {
      if (event.RequestType === 'Create') made = (await onCreate?.(event)) ?? undefined;
      if (event.RequestType === 'Update') made = (await onUpdate?.(event)) ?? undefined;
      if (event.RequestType === 'Delete') await onDelete?.(event);
    } catch (error) {
      failure = String(error);
      host.log.error('custom resource failed', { request: event.RequestType, error: failure });
    }
    const { StackId, RequestId, LogicalResourceId } = event;
    await fetch(event.ResponseURL, {
      method: 'PUT',
      body: JSON.stringify({
        Status: failure === undefined ? 'SUCCESS' : 'FAILED',
        Reason: failure,
        // Of a resource whose id changes, CloudFormation deletes the old one.
        PhysicalResourceId: made?.id ?? idOf(event),
        StackId,
        RequestId,
        LogicalResourceId,
      }),
    });
  };

const idOf = (event: CloudFormationCustomResourceEvent): string =>
  ('PhysicalResourceId' in event ? event.PhysicalResourceId : undefined) ?? 'cleaner';
