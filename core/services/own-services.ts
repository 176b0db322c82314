import type { Deps } from '#core/ports/deps.ts';
import type { OwnService, OwnServices } from '#core/ports/own-services.ts';
import type { Service } from './service.ts';
import { ServiceStore } from './store.ts';

/**
 * Finds services by their names for the platform's own requests.
 *
 * @param wayTo How this host reaches a service; `undefined` while it has no address.
 */
export const ownServices = (
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>,
  wayTo: (service: Pick<Service, 'id' | 'label' | 'address'>) => OwnService | undefined,
): OwnServices => ({
  async find(workspaceId, wanted) {
    const services = await new ServiceStore(deps, workspaceId).list();
    const named = services.filter(({ id, name, desired }) => desired !== 'deleted' && [id, name].includes(wanted));
    if (named.length > 1) {
      return { problem: `the workspace has ${named.length} services named "${wanted}": name it by its id` };
    }
    const [service] = named;
    if (service === undefined) return { problem: `the workspace has no service "${wanted}"` };
    if (service.desired !== 'running') return { problem: `the service "${wanted}" is paused` };
    return wayTo(service) ?? { problem: `the service "${wanted}" has no address yet` };
  },
});
