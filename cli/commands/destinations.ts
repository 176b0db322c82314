import { operations } from '../operation.ts';

export default operations([
  {
    name: 'list',
    operation: 'listDestinations',
    list: 'destinations',
    columns: ['id', 'url', 'enabled', 'events', 'agents', 'format', 'disabled_reason'],
    example: 'destinations list',
  },
  {
    name: 'create',
    operation: 'createDestination',
    args: ['url'],
    one: 'destination',
    example: 'destinations create https://hooks.example.com/runs --events run.failed',
  },
  {
    name: 'info',
    operation: 'getDestination',
    one: 'destination',
    example: 'destinations info https://hooks.example.com/runs',
  },
  {
    name: 'update',
    operation: 'updateDestination',
    one: 'destination',
    example: 'destinations update https://hooks.example.com/runs --agents main/triage,main/report',
  },
  { name: 'test', operation: 'testDestination', example: 'destinations test https://hooks.example.com/runs' },
  {
    name: 'log',
    operation: 'listDestinationLog',
    list: 'deliveries',
    columns: ['created_at', 'event', 'run_id', 'status', 'tries', 'problem', 'next_try_at'],
    example: 'destinations log https://hooks.example.com/runs',
  },
  {
    name: 'delete',
    operation: 'deleteDestination',
    confirm: 'Delete the destination',
    example: 'destinations delete https://hooks.example.com/runs --yes',
  },
]);
