/** What higher wings do when secrets change; `core/api/listeners.ts` connects them. Listeners must not throw. */
export interface SecretListeners {
  /** Called after a secret has another value. Returns the names of the services that restart. */
  secretChanged(workspaceId: string, name: string): Promise<string[]>;
}
