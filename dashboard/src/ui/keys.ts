import { useEffect, useRef, useSyncExternalStore } from 'react';

const SETTING = 'keys';
const listeners = new Set<() => void>();

/** Whether single-letter shortcuts are enabled (WCAG 2.1.4: they can be turned off). */
export const areKeysOn = (): boolean => read() !== 'off';
function read(): string | null {
  try {
    return localStorage.getItem(SETTING);
  } catch {
    return null;
  }
}
export function turnKeys(on: boolean): void {
  try {
    if (on) localStorage.removeItem(SETTING);
    else localStorage.setItem(SETTING, 'off');
  } catch {
    // Storage is disabled: the setting lasts until the page is closed.
  }
  for (const listener of listeners) listener();
}
export const useKeysOn = (): boolean =>
  useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, areKeysOn);

/** Whether the user is typing, so that single letters are text. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return (
    target?.closest?.('input, textarea, select, [contenteditable="true"], [role="textbox"], .cm-editor') != null ||
    // Dialogs and menus handle keys themselves.
    document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"], [role="listbox"]') !== null
  );
}

/**
 * Registers shortcuts of a page, such as `{ c: cancel, 'Shift+R': replay }`. They are inactive while the user types and
 * if shortcuts are turned off. `'Mod+Enter'` means Ctrl or Cmd with Enter and also works in inputs.
 */
export function useKeys(keys: Readonly<Record<string, (() => void) | undefined>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.altKey) return;
      const isMod = event.ctrlKey || event.metaKey;
      if (!isMod && (isTyping(event) || !areKeysOn())) return;
      const name = `${isMod ? 'Mod+' : ''}${event.shiftKey && event.key.length === 1 && event.key !== '?' ? 'Shift+' : ''}${event.key}`;
      const run = latest.current[name];
      if (run === undefined) return;
      event.preventDefault();
      run();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
}
