import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Service } from './service.ts';

type Instances = Pick<Service, 'minInstances' | 'maxInstances'>;

/** Throws INVALID_INPUT for counts that contradict each other, or exceed the plan of the workspace. */
export function checkInstances(
  deps: Pick<Deps, 'config'>,
  workspace: Workspace,
  { minInstances, maxInstances }: Instances,
): void {
  if (minInstances > maxInstances) {
    throw new PlatformError(
      'INVALID_INPUT',
      `min_instances: ${minInstances} is more than max_instances, which is ${maxInstances}.`,
    );
  }
  const { name, service_instances: limit } = planOf(deps, workspace);
  if (maxInstances > limit) {
    throw new PlatformError(
      'INVALID_INPUT',
      `max_instances: the plan "${name}" of the workspace "${workspace.slug}" allows ${limit} for one service, not ${maxInstances}.`,
    );
  }
}

/** Returns the normalized URL, or null for none. Throws INVALID_INPUT. */
export function checkAlertUrl({ config }: Pick<Deps, 'config'>, given: string | null | undefined): string | null {
  if (!given) return null;
  checkOutboundUrl(given, config.outboundHosts, 'alert_webhook_url');
  return given;
}

/**
 * Throws INVALID_INPUT for arguments without a program, and for a command of a loop. `agent` is undefined if it was
 * deleted.
 */
export function checkCommand(
  { command, args }: Pick<Service, 'command' | 'args'>,
  agent: AgentVersion | undefined,
): void {
  if (agent && command !== null && engineTraits(agent).hasLoop) {
    throw new PlatformError(
      'INVALID_INPUT',
      `command: ${refOf(agent)} is a loop, which runs no program; leave it out.`,
    );
  }
  if (args.length > 0 && command === null) {
    throw new PlatformError('INVALID_INPUT', 'args: there is no program for them; send it as "command".');
  }
  if ([command ?? '', ...args].some((word) => word.includes('\0'))) {
    throw new PlatformError('INVALID_INPUT', 'command: a command must not have a NUL character.');
  }
}

/** Throws UNPROCESSABLE if the host does not support services. */
export function checkHost({ wakeServices }: Pick<Deps, 'wakeServices'>): void {
  if (wakeServices !== undefined) return;
  throw new PlatformError('UNPROCESSABLE', 'This platform does not support services.', {
    hint: 'Call the agent, or run it on a schedule.',
  });
}
