import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { listQuery, logLine, logsQuery, newService, serviceChanges, serviceEvent, serviceView } from './schema.ts';

const SERVICES = '/workspaces/{workspace_id}/services';
const SERVICE = `${SERVICES}/{service_id}` as const;
const one = z.object({ service: serviceView });
const row = { fn: 'services', auth: 'key' } as const;

export const serviceRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listServices',
    method: 'GET',
    path: SERVICES,
    summary: 'List the services of a workspace, newest first',
    request: { query: listQuery },
    response: { 200: z.object({ services: z.array(serviceView), total: z.int() }) },
  },
  {
    ...row,
    operationId: 'deployService',
    audit: {
      request: ['agent', 'agent_name', 'agent_id', 'agent_version', 'service_name', 'name', 'secret_names'],
      response: { service_id: 'service.id' },
    },
    method: 'POST',
    path: SERVICES,
    summary: 'Deploy an agent as an always-on service with a public URL',
    role: 'owner',
    request: { body: newService },
    response: { 201: one },
    errors: ['NOT_FOUND', 'MISSING_SECRETS', 'UNPROCESSABLE', 'CONFLICT'],
  },
  {
    ...row,
    operationId: 'getService',
    method: 'GET',
    path: SERVICE,
    summary: 'Show a service with the latest entries of its timeline',
    response: { 200: z.object({ service: serviceView.extend({ events: z.array(serviceEvent) }) }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'updateService',
    audit: { request: ['secret_names', 'desired_state', 'min_instances', 'max_instances'] },
    method: 'PATCH',
    path: SERVICE,
    summary: 'Change a service; a running service restarts, a paused one applies the change on its next start',
    role: 'owner',
    request: { body: serviceChanges },
    response: { 200: one },
    errors: ['NOT_FOUND', 'MISSING_SECRETS', 'UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'restartService',
    method: 'POST',
    path: `${SERVICE}/restart`,
    summary: 'Restart a service or start a paused one; resets the count of failed restarts',
    role: 'owner',
    response: { 200: one },
    errors: ['NOT_FOUND', 'MISSING_SECRETS', 'UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'updateServiceVersion',
    method: 'POST',
    path: `${SERVICE}/update-version`,
    summary: 'Update a service to the current version of its agent',
    role: 'owner',
    response: {
      200: one.extend({
        updated_to: z.string().optional().describe('Absent if the service already ran this version.'),
      }),
    },
    errors: ['NOT_FOUND', 'INVALID_INPUT', 'MISSING_SECRETS', 'UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'deleteService',
    method: 'DELETE',
    path: SERVICE,
    summary: 'Delete a service and its logs; its name is available immediately',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true), service: serviceView }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'listServiceLogs',
    method: 'GET',
    path: `${SERVICE}/logs`,
    summary: 'Show the latest log lines of a service, oldest first',
    request: { query: logsQuery },
    response: { 200: z.object({ logs: z.array(logLine) }) },
    errors: ['NOT_FOUND'],
  },
]);
