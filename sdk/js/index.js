/**
 * @typedef {import('./platform.js').Answer} Answer
 * @typedef {import('./platform.js').CallOptions} CallOptions
 * @typedef {import('./platform.js').Event} Event
 * @typedef {import('./platform.js').Run} Run
 * @typedef {import('./platform.js').SessionOptions} SessionOptions
 * @typedef {import('./serve.js').Call} Call
 * @typedef {import('./upload.js').Upload} Upload
 */
export { AgentClient } from './agent-client.js';
export * as durable from './durable.js';
export {
  AuthenticationError,
  CallChainCycleError,
  ConflictError,
  DependencyCallError,
  InvalidRequestError,
  LocalExecutionError,
  MaxHopsExceededError,
  NetworkError,
  NotFoundError,
  PermissionDeniedError,
  PlatformError,
  RateLimitError,
  RunFailedError,
  ServerError,
  StepOrderError,
  StorageConflictError,
  StorageError,
  StorageNotFoundError,
  StorageQuotaError,
  TimeoutExceededError,
} from './errors.js';
export { Stream } from './events.js';
export * as message from './message.js';
export { Platform } from './platform.js';
export { serve } from './serve.js';
export { Session } from './session.js';
export * as storage from './storage.js';
export * as task from './task.js';
