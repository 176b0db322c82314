import type * as z from 'zod';
import { isoTime } from '#core/ports/clock.ts';
import type { ServiceLogLine } from '#core/ports/service-host.ts';
import type { logLine, serviceEvent, serviceView } from './schema.ts';
import { requiredNames, type Service, type ServiceEvent } from './service.ts';
import { healthOf, restartsOf, stateOf } from './state.ts';

const timeOrNull = (epochMs: number | null): string | null => (epochMs === null ? null : isoTime(epochMs));

/** Returns a service in its API form. */
export function viewOf(service: Service): z.output<typeof serviceView> {
  const state = stateOf(service);
  const health = healthOf(service);
  const deployedAt = isoTime(service.lastDeployedAt);
  return {
    id: service.id,
    workspace_id: service.workspaceId,
    agent_id: service.agentId,
    agent_name: service.agentName,
    agent_version: service.agentVersion,
    service_name: service.name,
    name: service.name,
    desired_state: service.desired === 'running' ? 'running' : 'stopped',
    current_state: state,
    state,
    health_status: health,
    health,
    service_url: service.address,
    service_tier: 'standard',
    service_tier_label: 'Standard (shared CPU)',
    min_instances: service.minInstances,
    max_instances: service.maxInstances,
    overlap: service.overlap,
    command: service.command,
    args: service.args.length === 0 ? null : [...service.args],
    restart_count: restartsOf(service),
    consecutive_restart_failures: service.consecutiveFailures,
    max_restart_failures: service.maxRestartFailures,
    auto_paused_at: timeOrNull(service.autoPausedAt),
    last_restart_at: timeOrNull(service.lastRestartAt),
    last_deployed_at: deployedAt,
    deployed_at: deployedAt,
    last_error: service.lastError?.message ?? null,
    alert_webhook_url: service.alertWebhookUrl,
    auto_update: service.autoUpdate,
    ...(service.channel != null && { channel: service.channel }),
    env_json: { ...service.env },
    env: { ...service.env },
    secret_names: requiredNames(service),
    created_at: isoTime(service.createdAt),
    updated_at: isoTime(service.updatedAt),
  };
}

export const eventView = ({ id, type, message, createdAt }: ServiceEvent): z.output<typeof serviceEvent> => ({
  id,
  event_type: type,
  message,
  created_at: isoTime(createdAt),
});

export const lineView = ({ at, severity, message, source }: ServiceLogLine): z.output<typeof logLine> => ({
  timestamp: isoTime(at),
  severity,
  message,
  ...(source !== undefined && { source }),
});
