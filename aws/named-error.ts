/** Whether AWS rejected a call with one of these errors. */
export const isNamed = (error: unknown, ...names: string[]): boolean =>
  error instanceof Error && names.includes(error.name);

/** For `catch`: resolves to undefined for an error with this name. */
export const unless =
  (...names: string[]) =>
  (error: unknown): undefined => {
    if (!isNamed(error, ...names)) throw error;
  };
