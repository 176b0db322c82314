import { ServiceHostError } from '#core/ports/service-host.ts';
import { isNamed } from '../named-error.ts';

const MAX_LENGTH = 500;

/** AWS's reasons about tasks and orders with their remedies. The first match counts. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /limit on the number of vCPUs/i,
    'The AWS account has reached its limit: the quota "Fargate On-Demand vCPU resource count" (6 in a new account) counts the sandboxes, too. The operator must request a higher one (Service Quotas), or services must be paused.',
  ],
  [
    /CannotPullContainer|pull image/i,
    "The runner's image is missing or cannot be pulled. The operator must deploy the stage again.",
  ],
  [
    /ResourceInitializationError/i,
    'The task could not reach AWS before its start. The operator must check the subnets of the services: their route to the internet, and public addresses.',
  ],
  [/OutOfMemory/i, 'It used more memory than an instance has (`services.memoryMb` in the stage file).'],
  [
    /health check/i,
    'The app neither listened on its port (`PORT`) nor ran for a minute without listening, as workers do.',
  ],
];

/** Returns AWS's reason in a form for users: without names of the account, and with the remedy. */
export function explained(reason: string): string {
  const remedy = REMEDIES.find(([pattern]) => pattern.test(reason))?.[1];
  const text = reason.replaceAll(/arn:aws[\w-]*:\S+|\b\d{12}\b\S*/g, '…').trim();
  return [text, remedy]
    .filter((part) => part)
    .join(' ')
    .slice(0, MAX_LENGTH);
}

/** Errors of ECS and load balancers that a retry of the same order would get again, with their remedies. */
const FINAL: readonly (readonly [name: string, remedy: string])[] = [
  [
    'UnsupportedFeatureException',
    'This AWS Region has no ECS gateways. The operator must set `services.domain` in the stage file and deploy the stage again.',
  ],
  [
    'AccessDeniedException',
    'AWS denies the platform a permission that it needs for services. The operator finds it in the log of the function service-keeper.',
  ],
  [
    'TooManyRulesException',
    'The load balancer of the services is full. The operator must request a higher quota "Rules per Application Load Balancer", or services must be deleted.',
  ],
  [
    'TooManyUniqueTargetGroupsPerLoadBalancerException',
    'The load balancer of the services is full: its maximum is 100. Delete services.',
  ],
  [
    'TooManyTargetGroupsException',
    'The AWS account has reached its limit. The operator must request a higher quota "Target Groups per Region", or services must be deleted.',
  ],
  [
    'LimitExceededException',
    'A quota of the AWS account is used up. The operator finds which in the log of the function service-keeper.',
  ],
];

/** A name that is or recently was in use: a concurrent order has created the service, or it is still being deleted. */
const PASSING = /not idempotent|draining/i;

/** Converts a final AWS error to a refusal. Returns any other error unchanged, because the order is retried. */
export function asRefusal(error: unknown): unknown {
  const known = FINAL.find(([name]) => isNamed(error, name));
  if (known) return new ServiceHostError(known[1], { isFinal: true });
  const isWrong = isNamed(
    error,
    ...['InvalidParameterException', 'PlatformUnknownException', 'PlatformTaskDefinitionIncompatibilityException'],
  );
  const { message } = error as Error;
  if (!isWrong || PASSING.test(message)) return error;
  return new ServiceHostError(`AWS refuses this service: ${explained(message)}`, { isFinal: true });
}
