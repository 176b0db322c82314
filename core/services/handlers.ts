import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { refOf } from './apply.ts';
import { type CommandDeps, deployService } from './deploy.ts';
import type { serviceRoutes } from './routes.ts';
import { stateOf } from './state.ts';
import { ServiceStore } from './store.ts';
import { deleteService, findService, restartService, updateService, updateServiceVersion } from './update.ts';
import { eventView, lineView, viewOf } from './view.ts';

export const serviceHandlers = (deps: CommandDeps & Pick<AllDeps, 'serviceLogs'>): Handlers<typeof serviceRoutes> => ({
  async listServices({ caller, query: { status, limit, offset } }) {
    const all = await new ServiceStore(deps, caller.workspace.id).list();
    const found = all.filter((service) => {
      const state = stateOf(service);
      return status === undefined ? state !== 'deleted' : state === status;
    });
    const services = found.slice(offset, offset + limit).map(viewOf);
    return { status: 200, body: { services, total: found.length } };
  },

  async deployService({ caller, body }) {
    return { status: 201, body: { service: viewOf(await deployService(deps, caller, body)) } };
  },

  async getService({ caller, params }) {
    const service = await findService(deps, caller, params.service_id);
    const events = await new ServiceStore(deps, caller.workspace.id).listEvents(service.id);
    return { status: 200, body: { service: { ...viewOf(service), events: events.map(eventView) } } };
  },

  async updateService({ caller, params, body }) {
    return { status: 200, body: { service: viewOf(await updateService(deps, caller, params.service_id, body)) } };
  },

  async restartService({ caller, params }) {
    return { status: 200, body: { service: viewOf(await restartService(deps, caller, params.service_id)) } };
  },

  async updateServiceVersion({ caller, params }) {
    const { service, updatedTo } = await updateServiceVersion(deps, caller, params.service_id);
    return {
      status: 200,
      body: { service: viewOf(service), ...(updatedTo !== undefined && { updated_to: updatedTo }) },
    };
  },

  async deleteService({ caller, params }) {
    const service = await deleteService(deps, caller, params.service_id);
    return { status: 200, body: { deleted: true, service: viewOf(service) } };
  },

  async listServiceLogs({ caller, params, query: { limit, since, severity } }) {
    const service = await findService(deps, caller, params.service_id);
    const lines = await deps.serviceLogs?.logs(refOf(service), {
      limit,
      ...(since !== undefined && { since: Date.parse(since) }),
      ...(severity !== undefined && { severity }),
    });
    if (lines === undefined) {
      throw new PlatformError('NOT_FOUND', 'This platform does not support services, so there are no logs.');
    }
    return { status: 200, body: { logs: lines.map(lineView) } };
  },
});
