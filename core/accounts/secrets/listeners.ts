/** Callbacks of higher wings for changed secrets; `core/api/listeners.ts` connects them. Listeners must not throw. */
export interface SecretListeners {
  /** Called after the value of a secret has changed. Returns the names of the services that restart. */
  secretChanged(workspaceId: string, name: string): Promise<string[]>;
}
