//! Each scenario in many orders of its threads.
//!
//! `ORDERS=100000` tries more of them. What goes wrong is told with the order in which it did.

use millpond_interleavings::{housekeeping, in_many_orders, layers, queue, segments, sessions, takeover};

macro_rules! in_many_orders {
    ($($module:ident::$scenario:ident)*) => {
        $(
            #[test]
            fn $scenario() {
                in_many_orders($module::$scenario);
            }
        )*
    };
}

in_many_orders! {
    queue::threads_wait_for_room_and_for_answers
    queue::tasks_wait_for_room_and_for_answers
    queue::a_stop_comes_between_those_who_submit
    queue::an_end_leaves_nobody_waiting
    queue::who_leaves_the_line_holds_up_nobody
    queue::who_asks_for_little_finds_one_turn_in_front_of_it
    queue::places_are_waited_for
    queue::a_chain_hands_everything_on
    sessions::an_outbox_is_emptied
    sessions::a_close_is_heard
    sessions::room_is_handed_on
    sessions::turns_are_handed_on
    housekeeping::a_ring_is_heard
    housekeeping::a_compactor_takes_a_step_for_what_was_committed
    housekeeping::a_compactor_tries_again_where_space_is_found
    layers::what_was_put_is_found_while_the_filter_is_made_anew
    layers::an_answer_is_what_is_there_when_it_is_given
    segments::what_is_found_in_memory_is_what_was_written
    segments::a_spare_is_taken_once_and_the_reserve_is_left
    takeover::a_session_speaks_through_one_connection
    takeover::windows_are_given_back
    takeover::no_more_use_a_namespace_than_may
}
