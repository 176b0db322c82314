import { operations } from '../operation.ts';

export default operations([
  {
    name: 'list',
    operation: 'listServices',
    list: 'services',
    columns: ['id', 'service_name', 'agent_name', 'agent_version', 'current_state', 'health_status', 'url'],
    example: 'service list',
  },
  { name: 'deploy', operation: 'deployService', args: ['agent'], one: 'service', example: 'service deploy main/bot' },
  { name: 'info', operation: 'getService', one: 'service', example: 'service info bot' },
  {
    name: 'logs',
    operation: 'listServiceLogs',
    list: 'logs',
    columns: ['timestamp', 'severity', 'source', 'message'],
    example: 'service logs bot',
  },
  {
    name: 'update',
    operation: 'updateService',
    one: 'service',
    example: 'service update bot --env \'{"LOCALE": "de"}\'',
  },
  { name: 'restart', operation: 'restartService', one: 'service', example: 'service restart bot' },
  { name: 'follow', operation: 'updateServiceVersion', one: 'service', example: 'service follow bot' },
  {
    name: 'delete',
    operation: 'deleteService',
    one: 'service',
    confirm: 'Delete the service and its logs',
    example: 'service delete bot --yes',
  },
]);
