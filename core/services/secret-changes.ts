import type { Deps } from '#core/ports/deps.ts';
import type { Service } from './service.ts';
import { changed } from './state.ts';
import { ServiceStore } from './store.ts';

/** Returns whether the service uses a secret. */
const uses = ({ requiredSecrets, optionalSecrets, extraSecrets }: Service, name: string): boolean =>
  [requiredSecrets, optionalSecrets, extraSecrets].some((names) => names.includes(name));

/**
 * Restarts the running services that use a secret after its value has changed. Never throws: the change has already
 * happened.
 *
 * @returns the names of these services
 */
export async function restartUsersOf(
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config' | 'log' | 'wakeServices'>,
  workspaceId: string,
  secret: string,
): Promise<string[]> {
  try {
    const store = new ServiceStore(deps, workspaceId);
    const using = (await store.list()).filter((service) => service.desired === 'running' && uses(service, secret));
    const restarted = await Promise.all(
      using.map(({ id }) =>
        store.change(id, (service) => {
          if (service.desired !== 'running') return undefined;
          const now = deps.clock.now();
          const message = `Restarted because the secret ${secret} has changed.`;
          return {
            service: { ...changed(service), lastRestartAt: now, updatedAt: now },
            events: [{ type: 'secrets_updated', message }],
          };
        }),
      ),
    );
    const services = restarted.filter((service) => service !== undefined);
    if (services.length > 0) await deps.wakeServices?.(services.map(({ id }) => id));
    return services.map(({ name }) => name);
  } catch (error) {
    deps.log.error('services did not restart after a change of a secret', { secret, error: String(error) });
    return [];
  }
}
