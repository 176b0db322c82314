import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { host } from './host.ts';

type Event<Type extends CloudFormationCustomResourceEvent['RequestType']> = Extract<
  CloudFormationCustomResourceEvent,
  { RequestType: Type }
>;

/**
 * A created resource. When its id changes, CloudFormation deletes the resource with the former id, once nothing refers
 * to it.
 */
export interface Made {
  /** Value of `Ref` for the resource. */
  readonly id: string;
}

/** Handlers of a custom resource for each event type. An error fails the stack's operation with its message. */
export interface CustomResourceWork {
  /** @default - nothing */
  readonly onCreate?: (event: Event<'Create'>) => Promise<Made> | Promise<void>;
  /** @default - nothing */
  readonly onUpdate?: (event: Event<'Update'>) => Promise<Made> | Promise<void>;
  /** @default - nothing */
  readonly onDelete?: (event: Event<'Delete'>) => Promise<void>;
}

/**
 * Returns the handler of a CloudFormation custom resource. It always responds: otherwise the stack waits for an hour.
 */
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
        // If the id changes, CloudFormation deletes the old resource.
        PhysicalResourceId: made?.id ?? idOf(event),
        StackId,
        RequestId,
        LogicalResourceId,
      }),
    });
  };

const idOf = (event: CloudFormationCustomResourceEvent): string =>
  ('PhysicalResourceId' in event ? event.PhysicalResourceId : undefined) ?? 'cleaner';
