export { AgentClient } from './agent-client.js';
export {
  CallChainCycleError,
  DependencyCallError,
  LocalExecutionError,
  MaxHopsExceededError,
  PlatformError,
  StorageConflictError,
  StorageError,
  StorageNotFoundError,
  StorageQuotaError,
  TimeoutExceededError,
} from './errors.js';
export * as message from './message.js';
export { Platform } from './platform.js';
export * as storage from './storage.js';
export * as task from './task.js';
