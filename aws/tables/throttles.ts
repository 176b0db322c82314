import { HostBusyError } from '#core/base/errors.ts';

/** Names of AWS's errors for too many requests; see "Common errors" in each service's API reference. */
const THROTTLES = [
  // Used by DynamoDB, Secrets Manager, KMS, ECS, CloudWatch Logs, Application Auto Scaling, EventBridge Scheduler.
  'ThrottlingException',
  // DynamoDB.
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  // Lambda, SES.
  'TooManyRequestsException',
  // EventBridge Scheduler uses it for its request rate, too:
  // docs.aws.amazon.com/scheduler/latest/UserGuide/scheduler-quotas.html.
  'ServiceQuotaExceededException',
  // Used by S3 and Elastic Load Balancing.
  'SlowDown',
  'Throttling',
];

/** Reasons in a cancelled DynamoDB transaction. */
const THROTTLED_PARTS = ['ThrottlingError', 'ProvisionedThroughputExceeded', 'RequestLimitExceeded'];

type Middleware = (next: (args: never) => Promise<unknown>) => (args: never) => Promise<unknown>;

interface Client {
  readonly middlewareStack: {
    add(middleware: Middleware, options: { step: 'initialize'; name: string }): void;
    remove(name: string): boolean;
  };
}

/**
 * Makes the client throw {@link HostBusyError} when AWS throttles it, after the SDK's own retries. Removes the SDK's
 * logging, which copies each request and response, and is never read.
 */
export function mapThrottlingErrors<Sdk>(client: Sdk): Sdk {
  // The middleware stacks of different clients have no common type.
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

/** Whether AWS rejected a request because of too many requests. */
export const isThrottle = (error: unknown): boolean => error instanceof Error && THROTTLES.includes(error.name);

/** Whether DynamoDB cancelled a transaction because it throttles one of its items. */
export const isThrottledPart = ({ Code = '' }: { readonly Code?: string | undefined }): boolean =>
  THROTTLED_PARTS.includes(Code);
