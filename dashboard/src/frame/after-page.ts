import { useEffect, useState } from 'react';

const WAIT_MS = 3_000;

/** Returns whether the frame may send its own requests: those of the page go first. */
export function useIsAfterPage(): boolean {
  const [isAfter, setAfter] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setAfter(true), WAIT_MS);
    return () => clearTimeout(timer);
  }, []);
  return isAfter;
}
