import { HostBusyError } from '#core/base/errors.ts';

/** What AWS calls a refusal for too many requests: each service by the reference of its API, "Common errors". */
const THROTTLES = [
  // DynamoDB, Secrets Manager, ECS, CloudWatch Logs, Application Auto Scaling, EventBridge Scheduler.
  'ThrottlingException',
  // DynamoDB.
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  // Lambda, SES.
  'TooManyRequestsException',
  // EventBridge Scheduler, for requests a second, too: docs.aws.amazon.com/scheduler/latest/UserGuide/scheduler-quotas.html.
  'ServiceQuotaExceededException',
  // S3, Elastic Load Balancing.
  'SlowDown',
  'Throttling',
];

/** Of the parts of a transaction that DynamoDB cancelled. */
const THROTTLED_PARTS = ['ThrottlingError', 'ProvisionedThroughputExceeded', 'RequestLimitExceeded'];

type Middleware = (next: (args: never) => Promise<unknown>) => (args: never) => Promise<unknown>;

interface Client {
  readonly middlewareStack: {
    add(middleware: Middleware, options: { step: 'initialize'; name: string }): void;
    remove(name: string): boolean;
  };
}

/**
 * Makes the client throw {@link HostBusyError} when AWS throttles it. The SDK retries first. The SDK's own log is removed: it
 * copies each request and answer, and is never read.
 */
export function mapThrottlingErrors<Sdk>(client: Sdk): Sdk {
  // The stacks of different clients share no type.
  const { middlewareStack } = client as Client;
  middlewareStack.remove('loggerMiddleware');
  middlewareStack.add(
    (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        throw isThrottle(error) ? new HostBusyError(String(error), { cause: error }) : error;
      }
    },
    { step: 'initialize', name: 'tellBusy' },
  );
  return client;
}

/** Whether AWS refused a request because there were too many. */
export const isThrottle = (error: unknown): boolean => error instanceof Error && THROTTLES.includes(error.name);

/** Whether DynamoDB cancelled a transaction because it throttles one of its items. */
export const isThrottledPart = ({ Code = '' }: { readonly Code?: string | undefined }): boolean =>
  THROTTLED_PARTS.includes(Code);
