/** Whether AWS refused a call with this error, or with one of these. */
export const isNamed = (error: unknown, ...names: string[]): boolean =>
  error instanceof Error && names.includes(error.name);

/** For `catch`: an error of this name is no error, and there is no answer. */
export const unless =
  (...names: string[]) =>
  (error: unknown): undefined => {
    if (!isNamed(error, ...names)) throw error;
  };
