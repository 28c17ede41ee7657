//! What keys do: a state machine without I/O.

use super::{Page, Panel, TopView, Ui};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Intervals that PgUp and PgDn go.
const FAR: i64 = 60;
const PAGE: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub enum Go {
    By(i64),
    First,
    Last,
    To(String),
    Toggle,
    Faster,
    Slower,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ScreenAction {
    None,
    Quit,
    /// Stop this process until the shell wakes it.
    Suspend,
    Redraw,
    Go(Go),
}

pub fn press(ui: &mut Ui, key: KeyEvent, view: Option<&TopView<'_>>) -> ScreenAction {
    ui.message = None;
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => ScreenAction::Quit,
            KeyCode::Char('z') => ScreenAction::Suspend,
            KeyCode::Char('l') => ScreenAction::Redraw,
            _ => ScreenAction::None,
        };
    }
    if let Some(typed) = ui.prompt.take() {
        return type_on(ui, typed, key.code);
    }
    if let Some(action) = time(ui, key.code) {
        return action;
    }
    if ui.page == Page::Tables { tables(ui, key.code, view) } else { page(ui, key.code) }
}

fn type_on(ui: &mut Ui, mut typed: String, code: KeyCode) -> ScreenAction {
    match code {
        KeyCode::Enter => return ScreenAction::Go(Go::To(typed)),
        KeyCode::Esc => return ScreenAction::None,
        KeyCode::Backspace => drop(typed.pop()),
        KeyCode::Char(c) if !c.is_control() && typed.len() < 40 => typed.push(c),
        _ => {}
    }
    ui.prompt = Some(typed);
    ScreenAction::None
}

fn time(ui: &mut Ui, code: KeyCode) -> Option<ScreenAction> {
    let on_page = ui.page != Page::Tables;
    Some(ScreenAction::Go(match code {
        KeyCode::Char(' ') => Go::Toggle,
        KeyCode::Left => Go::By(-1),
        KeyCode::Right => Go::By(1),
        KeyCode::PageUp if !on_page => Go::By(-FAR),
        KeyCode::PageDown if !on_page => Go::By(FAR),
        KeyCode::Home => Go::First,
        KeyCode::End => Go::Last,
        KeyCode::Char('+' | '=') => Go::Faster,
        KeyCode::Char('-') => Go::Slower,
        KeyCode::Char('g') => {
            ui.prompt = Some(String::new());
            return Some(ScreenAction::None);
        }
        _ => return None,
    }))
}

fn page(ui: &mut Ui, code: KeyCode) -> ScreenAction {
    match code {
        KeyCode::Up => ui.scrolled = ui.scrolled.saturating_sub(1),
        KeyCode::Down => ui.scrolled += 1,
        KeyCode::PageUp => ui.scrolled = ui.scrolled.saturating_sub(PAGE),
        KeyCode::PageDown => ui.scrolled += PAGE,
        KeyCode::Char('?') if ui.page != Page::Help => open(ui, Page::Help),
        KeyCode::Char('!') if ui.page != Page::Missing => open(ui, Page::Missing),
        KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Char('q' | '?' | '!') => {
            open(ui, Page::Tables);
        }
        _ => {}
    }
    ScreenAction::None
}

fn open(ui: &mut Ui, page: Page) {
    ui.page = page;
    ui.scrolled = 0;
}

fn tables(ui: &mut Ui, code: KeyCode, view: Option<&TopView<'_>>) -> ScreenAction {
    match code {
        KeyCode::Char('q') => return ScreenAction::Quit,
        KeyCode::Esc => ui.zoomed = false,
        KeyCode::Char('?' | 'h') => open(ui, Page::Help),
        KeyCode::Char('!') => open(ui, Page::Missing),
        KeyCode::Tab => ui.focus = ui.focus.further(1),
        KeyCode::BackTab => ui.focus = ui.focus.further(Panel::ALL.len() - 1),
        KeyCode::Char('d') => ui.focus = Panel::Disks,
        KeyCode::Char('t') => ui.focus = Panel::Threads,
        KeyCode::Char('l') => ui.focus = Panel::Layers,
        KeyCode::Char('r') => ui.focus = Panel::Rings,
        KeyCode::Char('z') => ui.zoomed = !ui.zoomed,
        KeyCode::Char('p') => ui.partitions = !ui.partitions,
        KeyCode::Char('i') => ui.idle = !ui.idle,
        KeyCode::Char('c') => ui.grouping = ui.grouping.next(),
        KeyCode::Char('R') => {
            let table = ui.focus.of_mut(ui);
            table.reversed = !table.reversed;
        }
        code => {
            if let Some(view) = view {
                rows(ui, code, view);
            }
        }
    }
    ScreenAction::None
}

fn rows(ui: &mut Ui, code: KeyCode, view: &TopView<'_>) {
    let focus = ui.focus;
    let table = super::table(view, ui, focus);
    let columns = table.table.columns.len();
    let place = table.place(focus.of(ui).selected.as_deref());
    let select = |ui: &mut Ui, place: usize| {
        let place = place.min(table.keys.len().saturating_sub(1));
        focus.of_mut(ui).selected = table.keys.get(place).cloned();
    };
    match code {
        KeyCode::Up => select(ui, place.saturating_sub(1)),
        KeyCode::Down => select(ui, place + 1),
        KeyCode::Char('s') => focus.of_mut(ui).sort = Some((table.sorted + 1) % columns),
        KeyCode::Char('S') => focus.of_mut(ui).sort = Some((table.sorted + columns - 1) % columns),
        KeyCode::Enter => {
            if let Some(key) = table.keys.get(place).cloned() {
                focus.of_mut(ui).selected = Some(key.clone());
                open(ui, Page::Detail(focus, key));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{Grouping, TopSource};
    use fathom_analysis::machine;
    use fathom_model::watch::{DiskCounters, IoCounters, MachineSample};

    /// Presses keys one after the other, on a machine with three disks; the actions of all.
    fn press_all(ui: &mut Ui, codes: &[KeyCode]) -> Vec<ScreenAction> {
        let machine = |ios| MachineSample {
            disks: ["sda", "sdb", "sdc"].map(|name| disk(name, ios)).into(),
            ..MachineSample::default()
        };
        let (before, now) = (machine(0), machine(9));
        let rates = machine::rates(&before, &now, 1_000_000_000);
        let view = TopView {
            before: &before,
            now: &now,
            rates: &rates,
            elapsed_ns: 1_000_000_000,
            unix_ns: 0,
            zone: &crate::calendar::TimeZone::UTC,
            source: TopSource::Live { interval_ns: 1, frozen: None, recording: false },
            stacks: &[],
            wiring: &[],
            missing: &[],
            own_ns: None,
        };
        codes.iter().map(|code| press(ui, KeyEvent::from(*code), Some(&view))).collect()
    }

    fn disk(name: &str, ios: u64) -> DiskCounters {
        let read = IoCounters { ios, ..IoCounters::default() };
        DiskCounters { name: name.into(), read, ..DiskCounters::default() }
    }

    fn chars(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn a_row_is_selected_and_shown_in_full() {
        let mut ui = Ui::default();
        press_all(&mut ui, &[KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Up]);
        assert_eq!(Panel::Disks.of(&ui).selected.as_deref(), Some("sdb"));
        press_all(&mut ui, &[KeyCode::Enter]);
        assert_eq!(ui.page, Page::Detail(Panel::Disks, "sdb".into()));
        // q leaves the page, then the program.
        assert_eq!(press_all(&mut ui, &chars("qq")), [ScreenAction::None, ScreenAction::Quit]);
    }

    #[test]
    fn tables_are_chosen_sorted_and_zoomed() {
        let mut ui = Ui::default();
        press_all(&mut ui, &chars("sR"));
        let disks = Panel::Disks.of(&ui);
        assert_eq!((disks.sort, disks.reversed), (Some(11), true));
        press_all(&mut ui, &[KeyCode::Tab, KeyCode::BackTab, KeyCode::BackTab]);
        assert_eq!(ui.focus, Panel::Rings);
        press_all(&mut ui, &chars("tzpic"));
        assert_eq!(ui.focus, Panel::Threads);
        assert!(ui.zoomed && ui.partitions && ui.idle);
        assert_eq!(ui.grouping, Grouping::State);
    }

    #[test]
    fn keys_of_time() {
        let mut ui = Ui::default();
        let keys = [KeyCode::Char(' '), KeyCode::Left, KeyCode::PageDown, KeyCode::End];
        let wanted = [Go::Toggle, Go::By(-1), Go::By(60), Go::Last].map(ScreenAction::Go);
        assert_eq!(press_all(&mut ui, &keys), wanted);
        // On a page of text, pages are scrolled.
        press_all(&mut ui, &chars("?"));
        assert_eq!(press_all(&mut ui, &[KeyCode::PageDown]), [ScreenAction::None]);
        assert_eq!(ui.scrolled, PAGE);
    }

    #[test]
    fn a_time_is_typed() {
        let mut ui = Ui::default();
        let mut keys = chars("g14:03q");
        keys.extend([KeyCode::Backspace, KeyCode::Enter]);
        let last = press_all(&mut ui, &keys).pop();
        assert_eq!(last, Some(ScreenAction::Go(Go::To("14:03".into()))));
        assert_eq!(ui.prompt, None);
        press_all(&mut ui, &chars("g1"));
        assert_eq!(press_all(&mut ui, &[KeyCode::Esc]), [ScreenAction::None]);
        assert_eq!(ui.prompt, None);
    }
}
