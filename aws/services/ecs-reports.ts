import type { Deployment, Service, Task } from '@aws-sdk/client-ecs';
import type { HostedInstance, InstanceEnd, RevisionFailure } from '#core/ports/service-host.ts';
import { explained } from './refusals.ts';
import { readTags } from './tags.ts';

/**
 * Stop codes that are not failures: the service scheduler or an operator stopped the task, or AWS moved it. Any other
 * (`EssentialContainerExited`, `TaskFailedToStart`) is a failure of the runner.
 */
const NO_FAILURES: readonly (string | undefined)[] = [
  'ServiceSchedulerInitiated',
  'UserInitiated',
  'SpotInterruption',
  'TerminationNotice',
  'InfrastructureHealth',
];

/** Returns ECS's own id of a task: the last part of its ARN. */
export const taskIdOf = ({ taskArn = '' }: Task): string => taskArn.split('/').at(-1)!;

/** Returns the instance of a task, or `undefined` if the task has ended or is not the platform's. */
export function instanceOf(task: Task): HostedInstance | undefined {
  const tagged = readTags(task.tags);
  if (tagged === undefined || task.lastStatus === 'STOPPED') return undefined;
  const startedAt = task.startedAt?.getTime() ?? null;
  return { instanceId: taskIdOf(task), revision: tagged.revision, startedAt };
}

/** Returns the end of an instance, once ECS has all details of it. */
export function endOf(task: Task): InstanceEnd | undefined {
  const tagged = readTags(task.tags);
  if (tagged === undefined || task.lastStatus !== 'STOPPED' || task.stoppedAt === undefined) return undefined;
  const { serviceId, revision } = tagged;
  const at = task.stoppedAt.getTime();
  // A runner exits with 0 when it is stopped, also by the platform, which rejects the token of a service that must not
  // run.
  const isStopped = NO_FAILURES.includes(task.stopCode) || task.containers?.[0]?.exitCode === 0;
  return {
    type: 'ended',
    serviceId,
    instanceId: taskIdOf(task),
    revision,
    // An instance that never started has a running time of zero.
    startedAt: task.startedAt?.getTime() ?? at,
    at,
    reason: isStopped ? 'stopped' : 'crashed',
    message: isStopped ? 'Stopped.' : explained(reasonOf(task)),
  };
}

function reasonOf({ stoppedReason = 'The task ended.', containers: [container] = [] }: Task): string {
  const { exitCode, reason } = container ?? {};
  const parts = [stoppedReason, exitCode !== undefined && `Exit code ${exitCode}`, reason];
  return parts.flatMap((part) => (part ? `${part.replace(/\.$/, '')}.` : [])).join(' ');
}

/** Signs of a failure besides ECS's description of the service. */
interface FailureSigns {
  /** Ended tasks, oldest first. */
  readonly ends: readonly InstanceEnd[];
  /** Reason why it cannot get an address. */
  readonly unreachable: string | undefined;
  readonly at: number;
}

/** Returns why ECS cannot start instances of the latest order, if so. */
export function failureOf(service: Service, { ends, unreachable, at }: FailureSigns): RevisionFailure | undefined {
  const tagged = readTags(service.tags);
  const deployment = service.deployments?.find(({ status }) => status === 'PRIMARY');
  if (tagged === undefined || deployment === undefined || service.desiredCount === 0) return undefined;
  const { serviceId, revision } = tagged;
  const lastEnd = ends.findLast((end) => end.revision === revision);
  const message = unreachable ?? unplaced(service, deployment) ?? givenUp(deployment, lastEnd);
  return message === undefined ? undefined : { type: 'failed', serviceId, revision, at, message };
}

function givenUp({ rolloutState, rolloutStateReason }: Deployment, last: InstanceEnd | undefined): string | undefined {
  if (rolloutState !== 'FAILED') return undefined;
  const why = last?.reason === 'crashed' ? last.message : explained(rolloutStateReason ?? '');
  return `AWS started no instance that stayed. ${why}`.trim();
}

/**
 * ECS retries forever to place a task for which the account has no capacity, and reports it only in the service's
 * events.
 */
function unplaced({ events = [] }: Service, deployment: Deployment): string | undefined {
  const { runningCount = 0, pendingCount = 0, createdAt } = deployment;
  if (runningCount + pendingCount > 0) return undefined;
  const message = events.find((event) => event.createdAt! >= createdAt! && isOfQuota(event.message))?.message;
  return message === undefined ? undefined : explained(message.replace(/^\(service [^)]*\) /, 'AWS '));
}

const isOfQuota = (message = ''): boolean => /limit on the number of vCPUs/i.test(message);
